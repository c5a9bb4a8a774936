# METADATA
# title: Ingresses
# description: Traffic through an Ingress should use TLS.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/services-networking/ingress/#tls
package ingress

# METADATA
# title: Ingress without TLS
# description: |
#   Without TLS, everyone on the network path can read and change what users send. Annotations by which a controller of a cloud
#   or of Traefik serves HTTPS count as TLS, unless they make it serve HTTP, too, without a redirect. An Ingress that only answers
#   challenges for certificates is not reported.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/services-networking/ingress/#tls
# custom:
#   id: NET-03
#   severity: high
#   frameworks: {nsa-1.2: [encryption]}
deny_missing_tls contains result if {
	is_ingress
	count(tls) == 0
	not has_certificate
	not answers_challenges
	result := {
		"msg": "ingress serves without TLS: set spec.tls with a certificate's secretName",
		"details": {"field": "spec.tls", "value": null},
	}
}

# METADATA
# title: Host without TLS
# description: A host in a rule that no entry of spec.tls lists is served without TLS.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/services-networking/ingress/#tls
# custom:
#   id: NET-04
#   severity: medium
#   frameworks: {nsa-1.2: [encryption]}
warn_uncovered_host contains result if {
	is_ingress
	count(tls) > 0

	# An entry without hosts covers all.
	every entry in tls { count(entry) > 0 }
	some rule in rules
	not is_covered(rule.host)
	result := {
		"msg": sprintf("ingress serves %s without TLS: add the host to spec.tls", [called(rule.host)]),
		"details": {"field": sprintf("spec.rules[%d].host", [rule.index]), "value": rule.host},
	}
}

# METADATA
# title: Configuration snippet
# description: |
#   A snippet becomes part of the configuration of ingress-nginx or of the controller of nginx.org. With it, those who may change
#   an Ingress run code in the controller, which reads the Secrets of all Namespaces (CVE-2021-25742). Its text is not shown.
# related_resources:
# - ref: https://kubernetes.github.io/ingress-nginx/user-guide/nginx-configuration/annotations-risk/
# - ref: https://github.com/kubernetes/ingress-nginx/issues/7837
# custom:
#   id: NET-07
#   severity: high
deny_snippet contains result if {
	is_ingress
	some name in snippets
	is_text(input.metadata.annotations[name])
	result := {
		"msg": sprintf("annotation \"%s\" runs code in the ingress controller: remove it", [name]),
		"details": {"field": sprintf("metadata.annotations[\"%s\"]", [name])},
	}
}

snippets := {
	"nginx.ingress.kubernetes.io/auth-snippet",
	"nginx.ingress.kubernetes.io/configuration-snippet",
	"nginx.ingress.kubernetes.io/modsecurity-snippet",
	"nginx.ingress.kubernetes.io/server-snippet",
	"nginx.ingress.kubernetes.io/stream-snippet",
	"nginx.org/location-snippets",
	"nginx.org/server-snippets",
}

versions := {"extensions/v1beta1", "networking.k8s.io/v1", "networking.k8s.io/v1beta1"}

is_ingress if {
	input.kind == "Ingress"
	input.apiVersion in versions
}

# Controllers whose certificates are not in spec.tls.
has_certificate if {
	some name in {"ingress.gcp.kubernetes.io/pre-shared-cert", "networking.gke.io/managed-certificates"}
	is_text(input.metadata.annotations[name])
}

has_certificate if lower(input.metadata.annotations["traefik.ingress.kubernetes.io/router.tls"]) == "true"

# The entry point of that name serves HTTPS in Traefik's chart and in k3s.
has_certificate if input.metadata.annotations["traefik.ingress.kubernetes.io/router.entrypoints"] == "websecure"

# Without listen-ports, a load balancer of AWS with a certificate serves HTTPS only.
has_certificate if {
	is_text(input.metadata.annotations["alb.ingress.kubernetes.io/certificate-arn"])
	not serves_http
}

# Without the annotation, the certificate is found by the host.
has_certificate if {
	"HTTPS" in alb_protocols
	not serves_http
}

serves_http if {
	"HTTP" in alb_protocols
	not redirects_http
}

redirects_http if {
	"HTTPS" in alb_protocols
	some name in {"actions.ssl-redirect", "ssl-redirect"}
	is_text(input.metadata.annotations[sprintf("alb.ingress.kubernetes.io/%s", [name])])
}

# The protocols that a load balancer of AWS listens for.
alb_protocols := {protocol |
	ports := json.unmarshal(input.metadata.annotations["alb.ingress.kubernetes.io/listen-ports"])
	some port in ports
	some protocol, _ in port
}

# Certificate authorities request the answer without TLS.
answers_challenges if {
	paths := [path | path := input.spec.rules[_].http.paths[_]]
	count(paths) > 0
	every item in paths {
		startswith(item.path, "/.well-known/acme-challenge/")
	}
}

is_text(value) if {
	is_string(value)
	trim_space(value) != ""
}

# The hosts of each entry.
tls := [hosts |
	entry := input.spec.tls[_]
	hosts := {host | host := entry.hosts[_]}
]

rules := [{"index": i, "host": host(rule)} | rule := input.spec.rules[i]]

host(rule) := rule.host if {
	is_string(rule.host)
} else := ""

# One set for all entries: each lookup takes the same time, however many entries there are.
tls_hosts := {host | host := tls[_][_]}

is_covered(host) if host in tls_hosts

# A wildcard covers exactly one label.
is_covered(host) if {
	labels := split(host, ".")
	wildcard := concat(".", array.concat(["*"], array.slice(labels, 1, count(labels))))
	wildcard in tls_hosts
}

called("") := "every other host"

called(host) := sprintf("host \"%s\"", [host]) if host != ""
