package ingress_test

import data.lib.build_test as build

ingress(spec) := {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "shop"}, "spec": spec}

for_host(host, tls) := ingress({"rules": [{"host": host, "http": {"paths": []}}], "tls": tls})

certificate_with(annotations) := {sprintf("alb.ingress.kubernetes.io/%s", [name]): value |
	some name, value in object.union({"certificate-arn": "arn:aws:acm:eu-central-1:1:certificate/a"}, annotations)
}

backend := {"service": {"name": "shop", "port": {"number": 80}}}

served(tls) := ingress(object.union(
	{"rules": [{"host": "shop.example.com", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}]},
	tls,
))

# For the pages of the rules.
examples := {
	"deny_missing_tls": {
		"violating": served({}),
		"correct": served({"tls": [{"hosts": ["shop.example.com"], "secretName": "shop-tls"}]}),
	},
	"warn_uncovered_host": {
		"violating": served({"tls": [{"hosts": ["www.example.com"], "secretName": "shop-tls"}]}),
		"correct": served({"tls": [{"hosts": ["www.example.com", "shop.example.com"], "secretName": "shop-tls"}]}),
	},
	"deny_snippet": {
		"violating": annotated({"nginx.ingress.kubernetes.io/configuration-snippet": "more_set_headers \"X-Frame-Options: DENY\";"}),
		"correct": annotated({"nginx.ingress.kubernetes.io/proxy-body-size": "8m"}),
	},
}

annotated(annotations) := object.union(
	served({"tls": [{"hosts": ["shop.example.com"], "secretName": "shop-tls"}]}),
	{"metadata": {"annotations": annotations}},
)

test_snippets if {
	every name in [
		"nginx.ingress.kubernetes.io/auth-snippet",
		"nginx.ingress.kubernetes.io/configuration-snippet",
		"nginx.ingress.kubernetes.io/modsecurity-snippet",
		"nginx.ingress.kubernetes.io/server-snippet",
		"nginx.ingress.kubernetes.io/stream-snippet",
		"nginx.org/location-snippets",
		"nginx.org/server-snippets",
	] {
		results := data.ingress.deny_snippet with input as annotated({name: "proxy_set_header Authorization \"Bearer s3cr3t\";"})
		results == {{
			"msg": sprintf("annotation \"%s\" runs code in the ingress controller: remove it", [name]),
			"details": {"field": sprintf("metadata.annotations[\"%s\"]", [name])},
		}}
		every empty in ["", " ", null, true] {
			count(data.ingress.deny_snippet) == 0 with input as annotated({name: empty})
		}
	}
}

test_no_snippets if {
	every annotations in [null, {}, {"nginx.ingress.kubernetes.io/rewrite-target": "/"}, {"example.com/server-snippet": "return 200;"}] {
		count(data.ingress.deny_snippet) == 0 with input as annotated(annotations)
	}
	snippet := {"nginx.ingress.kubernetes.io/server-snippet": "return 200;"}
	every patch in [{"kind": "VirtualServer"}, {"apiVersion": "example.com/v1"}] {
		count(data.ingress.deny_snippet) == 0 with input as object.union(annotated(snippet), patch)
	}
}

test_two_snippets if {
	both := {"nginx.ingress.kubernetes.io/server-snippet": "return 200;", "nginx.org/server-snippets": "return 200;"}
	count(data.ingress.deny_snippet) == 2 with input as annotated(both)
}

for_paths(paths) := ingress({"rules": [{"host": "shop.example.com", "http": {"paths": [{"path": path} | some path in paths]}}]})

test_challenges_for_certificates if {
	challenge := "/.well-known/acme-challenge/abc"
	count(data.ingress.deny_missing_tls) == 0 with input as for_paths([challenge])
	count(data.ingress.deny_missing_tls) == 0 with input as for_paths([challenge, challenge])
	every paths in [[], ["/"], [challenge, "/"], [null], ["/shop/.well-known/acme-challenge/abc"]] {
		count(data.ingress.deny_missing_tls) == 1 with input as for_paths(paths)
	}
	nameless := ingress({"rules": [{"http": {"paths": [{"path": challenge}, {"backend": backend}]}}]})
	count(data.ingress.deny_missing_tls) == 1 with input as nameless
}

test_certificates_of_controllers if {
	every annotations in [
		{"alb.ingress.kubernetes.io/certificate-arn": "arn:aws:acm:eu-central-1:1:certificate/a"},
		{"alb.ingress.kubernetes.io/listen-ports": `[{"HTTPS": 443}]`},
		certificate_with({"listen-ports": `[{"HTTPS": 443}, {"HTTPS": 8443}]`}),
		certificate_with({"listen-ports": `[{"HTTP": 80}, {"HTTPS": 443}]`, "ssl-redirect": "443"}),
		certificate_with({"listen-ports": `[{"HTTP": 80, "HTTPS": 443}]`, "actions.ssl-redirect": "{}"}),
		{"networking.gke.io/managed-certificates": "web"},
		{"ingress.gcp.kubernetes.io/pre-shared-cert": "web"},
		{"traefik.ingress.kubernetes.io/router.tls": "true"},
		{"traefik.ingress.kubernetes.io/router.entrypoints": "websecure"},
	] {
		annotated := object.union(ingress({"rules": [{"host": "a.example.com"}]}), {"metadata": {"annotations": annotations}})
		count(data.ingress.deny_missing_tls) == 0 with input as annotated
	}
	every annotations in [
		null,
		{},
		{"alb.ingress.kubernetes.io/certificate-arn": ""},
		{"alb.ingress.kubernetes.io/listen-ports": `[{"HTTP": 80}, {"HTTPS": 443}]`},
		certificate_with({"listen-ports": `[{"HTTP": 80}]`}),
		certificate_with({"listen-ports": `[{"HTTP": 80}, {"HTTPS": 443}]`}),
		certificate_with({"listen-ports": `[{"HTTPS": 443, "HTTP": 8080}]`, "ssl-redirect": ""}),
		certificate_with({"listen-ports": `[{"HTTP": 80}]`, "ssl-redirect": "443"}),
		{"alb.ingress.kubernetes.io/listen-ports": `[]`},
		{"alb.ingress.kubernetes.io/listen-ports": `no JSON`},
		{"traefik.ingress.kubernetes.io/router.tls": "false"},
		{"traefik.ingress.kubernetes.io/router.entrypoints": "web,websecure"},
	] {
		annotated := object.union(ingress({"rules": [{"host": "a.example.com"}]}), {"metadata": {"annotations": annotations}})
		count(data.ingress.deny_missing_tls) == 1 with input as annotated
	}
}

test_annotation_of_another_type if {
	annotated := object.union(ingress({}), {"metadata": {"annotations": {"networking.gke.io/managed-certificates": 1}}})
	count(data.ingress.deny_missing_tls) == 1 with input as annotated
}

test_no_tls if {
	every spec in [
		{"defaultBackend": {"service": {"name": "web"}}},
		{"rules": [{"host": "shop.example.com"}]},
		{"rules": [{"host": "shop.example.com"}], "tls": null},
		{"rules": [{"host": "shop.example.com"}], "tls": []},
	] {
		count(data.ingress.deny_missing_tls) == 1 with input as ingress(spec)
		count(data.ingress.warn_uncovered_host) == 0 with input as ingress(spec)
	}
}

test_covered_hosts if {
	every covered in [
		for_host("shop.example.com", [{"hosts": ["shop.example.com"], "secretName": "a"}]),
		for_host("shop.example.com", [{"hosts": ["a.example.com"]}, {"hosts": ["b.example.com", "shop.example.com"]}]),
		for_host("shop.example.com", [{"hosts": ["*.example.com"], "secretName": "a"}]),
		for_host("*.example.com", [{"hosts": ["*.example.com"], "secretName": "a"}]),
		for_host("shop.example.com", [{"secretName": "for-all"}]),
		for_host("shop.example.com", [{"hosts": null, "secretName": "for-all"}]),
		for_host("shop.example.com", [{"hosts": ["www.example.com"]}, {"secretName": "for-all"}]),
		ingress({"rules": [{"http": {"paths": []}}], "tls": [{"secretName": "for-all"}]}),
		ingress({"defaultBackend": {"service": {"name": "web"}}, "tls": [{"hosts": ["shop.example.com"]}]}),
	] {
		count(data.ingress.deny_missing_tls) == 0 with input as covered
		count(data.ingress.warn_uncovered_host) == 0 with input as covered
	}
}

test_uncovered_hosts if {
	every uncovered in [
		for_host("shop.example.com", [{"hosts": ["www.example.com"]}]),
		for_host("a.shop.example.com", [{"hosts": ["*.example.com"]}]),
		for_host("example.com", [{"hosts": ["*.example.com"]}]),
		for_host("*.example.com", [{"hosts": ["shop.example.com"]}]),
		ingress({"rules": [{"http": {"paths": []}}], "tls": [{"hosts": ["shop.example.com"]}]}),
		for_host(null, [{"hosts": ["shop.example.com"]}]),
	] {
		count(data.ingress.deny_missing_tls) == 0 with input as uncovered
		count(data.ingress.warn_uncovered_host) == 1 with input as uncovered
	}
}

test_old_versions if {
	every version in ["extensions/v1beta1", "networking.k8s.io/v1beta1"] {
		old := object.union(served({}), {"apiVersion": version})
		count(data.ingress.deny_missing_tls) == 1 with input as old
	}
}

test_messages if {
	plain := data.ingress.deny_missing_tls with input as ingress({"rules": [{"host": "shop.example.com"}]})
	plain == {{
		"msg": "ingress serves without TLS: set spec.tls with a certificate's secretName",
		"details": {"field": "spec.tls", "value": null},
	}}
	named := data.ingress.warn_uncovered_host with input as for_host("shop.example.com", [{"hosts": ["www.example.com"]}])
	named == {{
		"msg": "ingress serves host \"shop.example.com\" without TLS: add the host to spec.tls",
		"details": {"field": "spec.rules[0].host", "value": "shop.example.com"},
	}}
	nameless := data.ingress.warn_uncovered_host with input as ingress({"rules": [{"http": {}}], "tls": [{"hosts": ["a.example.com"]}]})
	build.messages(nameless) == {"ingress serves every other host without TLS: add the host to spec.tls"}
}
