package gateways_test

import data.lib.build_test as build

listener(patch) := object.union({"name": "http", "port": 80, "protocol": "HTTP"}, patch)

gateway(listeners) := {
	"apiVersion": "gateway.networking.k8s.io/v1",
	"kind": "Gateway",
	"metadata": {"name": "shop", "namespace": "shop"},
	"spec": {"gatewayClassName": "example", "listeners": listeners},
}

serving := {"backendRefs": [{"name": "web", "port": 80}]}

redirect := {"filters": [{"type": "RequestRedirect", "requestRedirect": {"scheme": "https"}}]}

# An HTTPRoute whose parent has these settings, with these rules.
route(parent, rules) := {
	"apiVersion": "gateway.networking.k8s.io/v1",
	"kind": "HTTPRoute",
	"metadata": {"name": "web", "namespace": "shop"},
	"spec": {"parentRefs": [object.union({"name": "shop"}, parent)], "rules": rules},
}

https := {
	"name": "https",
	"port": 443,
	"protocol": "HTTPS",
	"tls": {"certificateRefs": [{"name": "shop-tls"}]},
}

# For the pages of the rules; with the objects beside each of both.
examples := {"deny_plain_listener": {
	"violating": gateway([listener({})]),
	"correct": gateway([https]),
	"beside": {"violating": [route({}, [serving])], "correct": [route({}, [serving])]},
}}

results(item, objects) := found if {
	found := data.gateways.deny_plain_listener with input as item with data.inventory as build.inventory(objects)
}

served(settings, objects) := results(gateway([listener(settings)]), objects)

test_plain_listener if {
	served({}, [route({}, [serving])]) == {{
		"msg": "listener \"http\" serves routes without TLS: use protocol HTTPS, or only redirect to it",
		"details": {"field": "spec.listeners[0].protocol", "value": "HTTP", "routes": ["HTTPRoute shop/web"]},
	}}
	build.fields(results(gateway([https, listener({})]), [route({}, [serving])])) == {"spec.listeners[1].protocol"}
}

test_versions if {
	every version in ["gateway.networking.k8s.io/v1", "gateway.networking.k8s.io/v1beta1"] {
		older := object.union(gateway([listener({})]), {"apiVersion": version})
		count(results(older, [object.union(route({}, [serving]), {"apiVersion": version})])) == 1
	}
	grpc := object.union(route({}, [serving]), {"kind": "GRPCRoute"})
	{result.details.routes | some result in served({}, [grpc])} == {["GRPCRoute shop/web"]}
}

test_other_listeners if {
	every protocol in ["HTTPS", "TLS", "TCP", null] {
		served({"protocol": protocol}, [route({}, [serving])]) == set()
	}
	results(gateway(null), [route({}, [serving])]) == set()
}

test_other_kinds if {
	every patch in [{"kind": "ListenerSet"}, {"apiVersion": "networking.istio.io/v1"}] {
		results(object.union(gateway([listener({})]), patch), [route({}, [serving])]) == set()
	}
	served({}, [object.union(route({}, [serving]), {"kind": "TCPRoute"})]) == set()
	served({}, [object.union(route({}, [serving]), {"apiVersion": "example.com/v1"})]) == set()
}

test_routes_without_content if {
	every rules in [[], null, [redirect], [redirect, redirect], [{"backendRefs": []}], [{"backendRefs": null}]] {
		served({}, [route({}, rules)]) == set()
	}
	served({}, []) == set()
	count(served({}, [route({}, [redirect, serving])])) == 1
}

challenge(value) := {"path": {"type": "Exact", "value": value}}

test_challenges_for_certificates if {
	solver := challenge("/.well-known/acme-challenge/abc")
	served({}, [route({}, [object.union(serving, {"matches": [solver]})])]) == set()
	every matches in [[], null, [solver, challenge("/")], [solver, {"headers": []}], [challenge("/shop/.well-known/acme-challenge/")]] {
		count(served({}, [route({}, [object.union(serving, {"matches": matches})])])) == 1
	}
}

test_gateway_inside_of_the_cluster if {
	inside := object.union(gateway([listener({})]), {"metadata": {"annotations": {"networking.istio.io/service-type": "ClusterIP"}}})
	results(inside, [route({}, [serving])]) == set()
	outside := object.union(gateway([listener({})]), {"metadata": {"annotations": {"networking.istio.io/service-type": "LoadBalancer"}}})
	count(results(outside, [route({}, [serving])])) == 1
}

test_attached_routes if {
	every parent in [
		{"sectionName": "http"},
		{"sectionName": null, "port": null, "namespace": null, "kind": null, "group": null},
		{"port": 80},
		{"namespace": "shop"},
		{"kind": "Gateway", "group": "gateway.networking.k8s.io"},
	] {
		count(served({}, [route(parent, [serving])])) == 1
	}
	every parent in [
		{"name": "bank"},
		{"sectionName": "https"},
		{"port": 8080},
		{"namespace": "bank"},
		{"kind": "Service"},
		{"group": "example.com"},
	] {
		served({}, [route(parent, [serving])]) == set()
	}
	served({}, [object.union(route({}, [serving]), {"spec": {"parentRefs": null}})]) == set()
	count(served({}, [object.union(route({}, [serving]), {"spec": {"parentRefs": [{"name": "bank"}, {"name": "shop"}]}})])) == 1
}

elsewhere := object.union(route({"namespace": "shop"}, [serving]), {"metadata": {"namespace": "bank"}})

bank := {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bank", "labels": {"team": "bank"}}}

test_routes_of_other_namespaces if {
	every from in [
		{"from": "All"},
		{"from": "Selector", "selector": {"matchLabels": {"team": "bank"}}},
		{"from": "Selector", "selector": {"matchLabels": {"kubernetes.io/metadata.name": "bank"}}},
	] {
		count(served({"allowedRoutes": {"namespaces": from}}, [elsewhere, bank])) == 1
	}
	every allowed in [
		null,
		{"namespaces": null},
		{"namespaces": {}},
		{"namespaces": {"from": "Same"}},
		{"namespaces": {"from": "None"}},
		{"namespaces": {"from": "Selector", "selector": {"matchLabels": {"team": "shop"}}}},
		{"namespaces": {"from": "Same", "selector": {}}},
	] {
		served({"allowedRoutes": allowed}, [elsewhere, bank]) == set()
	}
	count(served({"allowedRoutes": {"namespaces": {"from": "Same"}}}, [route({}, [serving])])) == 1
	served({"allowedRoutes": {"namespaces": {"from": "None"}}}, [route({}, [serving])]) == set()
}

test_manifests_without_namespaces if {
	plain := object.union(object.remove(gateway([listener({})]), ["metadata"]), {"metadata": {"name": "shop", "namespace": null}})
	own := object.union(object.remove(route({}, [serving]), ["metadata"]), {"metadata": {"name": "web"}})
	{result.details.routes | some result in results(plain, [own])} == {["HTTPRoute web"]}
	results(plain, [route({}, [serving])]) == set()
}

with_hosts(hosts) := object.union(route({}, [serving]), {"spec": {"hostnames": hosts}})

test_hosts if {
	every pair in [
		[null, ["shop.example.com"]],
		["", ["shop.example.com"]],
		["shop.example.com", null],
		["shop.example.com", []],
		["shop.example.com", ["www.example.com", "shop.example.com"]],
		["*.example.com", ["shop.example.com"]],
		["*.example.com", ["a.shop.example.com"]],
		["shop.example.com", ["*.example.com"]],
		["*.example.com", ["*.shop.example.com"]],
	] {
		count(served({"hostname": pair[0]}, [with_hosts(pair[1])])) == 1
	}
	every pair in [
		["shop.example.com", ["www.example.com"]],
		["*.example.com", ["example.com"]],
		["*.example.com", ["shop.example.org"]],
		["example.com", ["shop.example.com"]],
	] {
		served({"hostname": pair[0]}, [with_hosts(pair[1])]) == set()
	}
}

test_at_most_ten_routes_are_named if {
	many := [object.union(route({}, [serving]), {"metadata": {"name": sprintf("web-%d", [i])}}) | some i in numbers.range(10, 29)]
	some result in served({}, many)
	result.details.routes == [sprintf("HTTPRoute shop/web-%d", [i]) | some i in numbers.range(10, 19)]
}
