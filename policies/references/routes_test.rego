package references.routes_test

import data.lib.build_test as build

# For the pages of the rules. Both manifests are checked beside these objects.
examples := {
	"deny_missing_backend": {
		"beside": [service("api", "shop", [{"port": 80}])],
		"violating": ingress([backend("ap", {"number": 80})]),
		"correct": ingress([backend("api", {"number": 80})]),
	},
	"deny_missing_grant": {
		"beside": [service("api", "bank", [{"port": 80}]), service("api", "shop", [{"port": 80}])],
		"violating": route([{"name": "api", "namespace": "bank", "port": 80}]),
		"correct": route([{"name": "api", "port": 80}]),
	},
	"deny_missing_certificate": {
		"beside": [secret("web-tls", "shop")],
		"violating": with_tls([{"hosts": ["shop.example.com"], "secretName": "shop-tls"}]),
		"correct": with_tls([{"hosts": ["shop.example.com"], "secretName": "web-tls"}]),
	},
	"deny_missing_class": {
		"beside": [class("networking.k8s.io/v1", "IngressClass", "public")],
		"violating": object.union(ingress([]), {"spec": {"ingressClassName": "nginx"}}),
		"correct": object.union(ingress([]), {"spec": {"ingressClassName": "public"}}),
	},
}

test_examples if {
	every rule, example in examples {
		store := build.inventory(example.beside)
		count(data.references.routes[rule]) == 1 with input as example.violating with data.inventory as store
		count(data.references.routes[rule]) == 0 with input as example.correct with data.inventory as store
	}
}

service(name, namespace, ports) := {
	"apiVersion": "v1",
	"kind": "Service",
	"metadata": {"name": name, "namespace": namespace},
	"spec": {"ports": ports},
}

secret(name, namespace) := {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}}

class(version, kind, name) := {"apiVersion": version, "kind": kind, "metadata": {"name": name}}

backend(name, port) := {"service": {"name": name, "port": port}}

ingress(backends) := {
	"apiVersion": "networking.k8s.io/v1",
	"kind": "Ingress",
	"metadata": {"name": "web", "namespace": "shop"},
	"spec": {"rules": [{"host": "shop.example.com", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": each} | some each in backends]}}]},
}

with_tls(tls) := object.union(ingress([]), {"spec": {"tls": tls}})

route(refs) := routed("v1", "HTTPRoute", refs)

routed(version, kind, refs) := {
	"apiVersion": sprintf("gateway.networking.k8s.io/%s", [version]),
	"kind": kind,
	"metadata": {"name": "web", "namespace": "shop"},
	"spec": {"rules": [{"backendRefs": refs}]},
}

gateway(spec) := object.union(object.remove(routed("v1", "Gateway", []), ["spec"]), {"spec": spec})

api := service("api", "shop", [{"name": "http", "port": 80}, {"port": 443}])

missing(item, objects) := build.messages(results) if {
	results := data.references.routes.deny_missing_backend with input as item with data.inventory as build.inventory(objects)
}

absent := {"backend Service \"api\" does not exist: create it, or correct the name"}

test_missing_backend if {
	every item in [
		ingress([backend("api", {"number": 80})]),
		ingress([backend("api", {"name": "http"})]),
		ingress([backend("api", null)]),
		object.union(ingress([]), {"spec": {"rules": null, "defaultBackend": backend("api", {"number": 80})}}),
	] {
		missing(item, []) == absent
		missing(item, [service("other", "shop", [{"port": 80}])]) == absent
		missing(item, [service("api", "bank", [{"port": 80}])]) == absent
	}
}

test_missing_backend_of_routes if {
	every kind in ["GRPCRoute", "HTTPRoute", "TCPRoute", "TLSRoute", "UDPRoute"] {
		every version in ["v1", "v1alpha2"] {
			every ref in [
				{"name": "api", "port": 80},
				{"name": "api", "kind": "Service", "group": "", "port": 80},
				{"name": "api", "kind": null, "group": null, "namespace": null, "port": 80},
				{"name": "api", "namespace": "shop", "port": 80},
			] {
				missing(routed(version, kind, [ref]), []) == absent
				missing(routed(version, kind, [ref]), [api]) == set()
			}
		}
	}
}

test_backend_and_its_port if {
	every port in [{"number": 80}, {"number": 443}, {"name": "http"}, {"name": "use-annotation"}, null, {}] {
		missing(ingress([backend("api", port)]), [api]) == set()
	}
	every port, text in {{"number": 8080}: "8080", {"name": "https"}: "https", {"name": null, "number": 81}: "81"} {
		missing(ingress([backend("api", port)]), [api]) == {sprintf("backend Service \"api\" has no port %s: correct the port", [text])}
	}
	missing(route([{"name": "api", "port": 8080}]), [api]) == {"backend Service \"api\" has no port 8080: correct the port"}
	missing(route([{"name": "api"}, {"name": "api", "port": null}]), [api]) == set()
	results := data.references.routes.deny_missing_backend with input as route([{"name": "api", "port": 8080}]) with data.inventory as build.inventory([api])
	build.fields(results) == {"spec.rules[0].backendRefs[0]"}
	external := object.union(service("api", "shop", null), {"spec": {"type": "ExternalName"}})
	missing(ingress([backend("api", {"number": 8080})]), [external]) == set()
}

test_default_backend if {
	item := object.union(ingress([]), {"spec": {"defaultBackend": backend("api", {"number": 80})}})
	results := data.references.routes.deny_missing_backend with input as item
	build.fields(results) == {"spec.defaultBackend.service"}
}

# Annotations of the AWS Load Balancer Controller have such a backend.
test_backend_by_annotation if {
	missing(ingress([backend("redirect", {"name": "use-annotation"})]), []) == set()
}

test_redirects if {
	every name in ["permanent", "temporal"] {
		redirect := {"metadata": {"annotations": {sprintf("nginx.ingress.kubernetes.io/%s-redirect", [name]): "https://example.com"}}}
		missing(object.union(ingress([backend("none", {"number": 80})]), redirect), []) == set()
	}
	other := {"metadata": {"annotations": {"nginx.ingress.kubernetes.io/ssl-redirect": "true"}}}
	missing(object.union(ingress([backend("api", {"number": 80})]), other), []) == absent
}

test_other_backends if {
	resource := {"resource": {"apiGroup": "storage.example.com", "kind": "Bucket", "name": "web"}}
	every item in [
		ingress([resource]),
		ingress([{"service": null}, {"service": {"name": null}}, null]),
		object.union(ingress([]), {"spec": {"rules": [{"host": "a", "http": null}]}}),
		object.union(ingress([backend("api", {"number": 80})]), {"apiVersion": "example.com/v1"}),
		object.union(ingress([backend("api", {"number": 80})]), {"kind": "IngressRoute"}),
		object.union(route([{"name": "api"}]), {"kind": "Mesh"}),
		object.union(route([{"name": "api"}]), {"apiVersion": "example.com/v1"}),
		route([{"name": "api", "kind": "ServiceImport"}]),
		route([{"name": "api", "group": "net.example.com"}]),
		route([{"name": null}, {}]),
		route(null),
	] {
		missing(item, []) == set()
	}
}

test_a_service_is_reported_once if {
	two := ingress([backend("web", {"number": 80}), backend("api", {"number": 80}), backend("api", {"number": 81})])
	results := data.references.routes.deny_missing_backend with input as two
		with data.inventory as build.inventory([service("web", "shop", [{"port": 80}])])
	results == {{
		"msg": "backend Service \"api\" does not exist: create it, or correct the name",
		"details": {"field": "spec.rules[0].http.paths[1].backend.service", "value": "api"},
	}}
}

test_manifests_without_namespace if {
	plain := object.remove(ingress([backend("api", {"number": 80})]), ["metadata"])
	local := object.remove(api, ["metadata"])
	missing(object.union(plain, {"metadata": {"name": "web"}}), [object.union(local, {"metadata": {"name": "api"}})]) == set()
	missing(object.union(plain, {"metadata": {"name": "web"}}), []) == absent
}

distant(item, objects) := build.messages(results) if {
	results := data.references.routes.deny_missing_grant with input as item with data.inventory as build.inventory(objects)
}

to_bank := route([{"name": "api", "namespace": "bank", "port": 80}])

bank_api := service("api", "bank", [{"port": 80}])

grant(version, from, to) := {
	"apiVersion": sprintf("gateway.networking.k8s.io/%s", [version]),
	"kind": "ReferenceGrant",
	"metadata": {"name": "web", "namespace": "bank"},
	"spec": {"from": [from], "to": [to]},
}

from_shop := {"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "shop"}

all_services := {"group": "", "kind": "Service"}

with_more(grant, from, to) := object.union(grant, {"spec": {
	"from": array.concat([from], grant.spec.from),
	"to": array.concat([to], grant.spec.to),
}})

refused := {"no ReferenceGrant in namespace bank allows the backend Service \"api\": create one there"}

test_grants if {
	every version in ["v1", "v1beta1"] {
		every to in [all_services, object.union(all_services, {"name": "api"}), object.union(all_services, {"name": ""}), object.union(all_services, {"name": null})] {
			distant(to_bank, [bank_api, grant(version, from_shop, to)]) == set()
		}
		several := with_more(grant(version, from_shop, all_services), object.union(from_shop, {"kind": "TCPRoute"}), {"group": "", "kind": "Secret"})
		distant(to_bank, [bank_api, several]) == set()
	}
}

test_without_a_grant if {
	distant(to_bank, [bank_api]) == refused
	every version in ["v1", "v1beta1"] {
		every wrong in [{"group": ""}, {"kind": "TCPRoute"}, {"namespace": "bank"}] {
			distant(to_bank, [bank_api, grant(version, object.union(from_shop, wrong), all_services)]) == refused
		}
		every wrong in [{"group": "example.com"}, {"kind": "Secret"}, {"name": "web"}] {
			distant(to_bank, [bank_api, grant(version, from_shop, object.union(all_services, wrong))]) == refused
		}
	}
	every version in ["v1", "v1beta1"] {
		other := object.union(grant(version, from_shop, {"group": "", "kind": "Secret"}), {"metadata": {"name": "other"}})
		distant(to_bank, [bank_api, other, grant(version, from_shop, all_services)]) == set()
	}
	elsewhere := object.union(grant("v1", from_shop, all_services), {"metadata": {"namespace": "shop"}})
	distant(to_bank, [bank_api, elsewhere]) == refused
}

test_missing_service_of_another_namespace if {
	granted := grant("v1", from_shop, all_services)
	distant(to_bank, [granted]) == {"backend Service \"bank/api\" does not exist: create it, or correct the name"}
	distant(to_bank, [granted, api]) == {"backend Service \"bank/api\" does not exist: create it, or correct the name"}
	without_port := service("api", "bank", [{"port": 81}])
	distant(to_bank, [granted, without_port]) == {"backend Service \"bank/api\" has no port 80: correct the port"}
	missing(to_bank, []) == set()
}

test_own_namespace_needs_no_grant if {
	distant(route([{"name": "api", "port": 80}, {"name": "api", "namespace": "shop"}]), []) == set()

	# Whether it is another namespace is unknown here.
	unplaced := object.union(object.remove(to_bank, ["metadata"]), {"metadata": {"name": "web"}})
	distant(unplaced, []) == set()
	missing(unplaced, []) == set()
}

uncertified(item, objects) := build.fields(results) if {
	results := data.references.routes.deny_missing_certificate with input as item with data.inventory as build.inventory(objects)
}

listeners(refs) := gateway({"listeners": [{"name": "http"}, {"name": "https", "tls": {"certificateRefs": refs}}]})

test_missing_certificates if {
	tls := with_tls([{"hosts": ["a"]}, {"hosts": ["b"], "secretName": "web-tls"}])
	uncertified(tls, []) == {"spec.tls[1].secretName"}
	uncertified(tls, [secret("web-tls", "bank")]) == {"spec.tls[1].secretName"}
	uncertified(tls, [secret("web-tls", "shop")]) == set()
	every ref in [
		{"name": "web-tls"},
		{"name": "web-tls", "kind": "Secret", "group": "", "namespace": "shop"},
		{"name": "web-tls", "kind": null, "group": null, "namespace": null},
	] {
		uncertified(listeners([ref]), []) == {"spec.listeners[1].tls.certificateRefs[0].name"}
		uncertified(listeners([ref]), [secret("web-tls", "shop")]) == set()
	}
}

test_certificate_is_reported_once if {
	uncertified(with_tls([{"secretName": "web-tls"}, {"secretName": "web-tls"}]), []) == {"spec.tls[0].secretName"}
	results := data.references.routes.deny_missing_certificate with input as with_tls([{"secretName": "web-tls"}])
	build.messages(results) == {"TLS Secret \"web-tls\" does not exist: create it, or correct the name"}
}

test_certificates_that_controllers_create if {
	tls := with_tls([{"secretName": "web-tls"}])
	every name in [
		"acme.cert-manager.io/http01-edit-in-place",
		"cert-manager.io/cluster-issuer",
		"cert-manager.io/issuer",
		"cert.gardener.cloud/purpose",
		"kubernetes.io/tls-acme",
	] {
		uncertified(object.union(tls, {"metadata": {"annotations": {"example.com/team": "web", name: "a"}}}), []) == set()
	}
	every name in ["example.com/cert-manager.io/issuer", "kubernetes.io/tls-acme-off"] {
		uncertified(object.union(tls, {"metadata": {"annotations": {name: "a"}}}), []) == {"spec.tls[0].secretName"}
	}
}

test_no_certificates if {
	every item in [
		with_tls(null),
		with_tls([{"secretName": null}, {"secretName": ""}, null]),
		object.union(with_tls([{"secretName": "web-tls"}]), {"apiVersion": "example.com/v1"}),
		object.union(with_tls([{"secretName": "web-tls"}]), {"kind": "IngressRoute"}),
		gateway({"listeners": [{"name": "http"}, {"name": "https", "tls": {"mode": "Passthrough"}}]}),
		listeners([{"name": null}, {"name": "a", "kind": "ConfigMap"}, {"name": "a", "group": "example.com"}]),
		listeners([{"name": "web-tls", "namespace": "certificates"}]),
		object.union(listeners([{"name": "web-tls"}]), {"apiVersion": "networking.istio.io/v1"}),
		object.union(listeners([{"name": "web-tls"}]), {"kind": "ListenerSet"}),
	] {
		uncertified(item, []) == set()
	}
}

unclassed(item, objects) := results if {
	results := data.references.routes.deny_missing_class with input as item with data.inventory as build.inventory(objects)
}

test_missing_class if {
	nginx := object.union(ingress([]), {"spec": {"ingressClassName": "nginx"}})
	unclassed(nginx, []) == {{
		"msg": "IngressClass \"nginx\" does not exist, so nothing serves this Ingress: correct spec.ingressClassName",
		"details": {"field": "spec.ingressClassName", "value": "nginx"},
	}}
	count(unclassed(nginx, [class("networking.k8s.io/v1", "IngressClass", "public")])) == 1
	count(unclassed(nginx, [class("gateway.networking.k8s.io/v1", "GatewayClass", "nginx")])) == 1
	unclassed(nginx, [class("networking.k8s.io/v1", "IngressClass", "nginx")]) == set()
	istio := gateway({"gatewayClassName": "istio"})
	unclassed(istio, []) == {{
		"msg": "GatewayClass \"istio\" does not exist, so nothing serves this Gateway: correct spec.gatewayClassName",
		"details": {"field": "spec.gatewayClassName", "value": "istio"},
	}}
	unclassed(istio, [class("gateway.networking.k8s.io/v1", "GatewayClass", "istio")]) == set()
	unclassed(istio, [class("gateway.networking.k8s.io/v1beta1", "GatewayClass", "istio")]) == set()
}

test_no_class if {
	every item in [
		ingress([]),
		object.union(ingress([]), {"spec": {"ingressClassName": null}}),
		object.union(ingress([]), {"spec": {"ingressClassName": ""}}),
		object.union(ingress([]), {"metadata": {"annotations": {"kubernetes.io/ingress.class": "nginx"}}}),
		object.union(ingress([]), {"apiVersion": "example.com/v1", "spec": {"ingressClassName": "nginx"}}),
		gateway({}),
		gateway({"gatewayClassName": null}),
		gateway({"gatewayClassName": ""}),
		object.union(gateway({"gatewayClassName": "istio"}), {"apiVersion": "networking.istio.io/v1"}),
	] {
		unclassed(item, []) == set()
	}
}
