# METADATA
# title: Ingresses
# description: Traffic through an Ingress should use TLS.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/services-networking/ingress/#tls
package ingress

# METADATA
# title: TLS
# description: Without TLS, anybody on the network path can read and change what users send.
# custom:
#   id: NET-03
#   severity: high
deny_missing_tls contains result if {
	is_ingress
	count(tls) == 0
	result := {
		"msg": "ingress serves without TLS: set spec.tls with a certificate's secretName",
		"details": {"field": "spec.tls", "value": null},
	}
}

# METADATA
# title: Hosts outside of TLS
# description: A host in a rule that no entry of spec.tls lists is served without TLS.
# custom:
#   id: NET-04
#   severity: medium
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

versions := {"extensions/v1beta1", "networking.k8s.io/v1", "networking.k8s.io/v1beta1"}

is_ingress if {
	input.kind == "Ingress"
	input.apiVersion in versions
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

is_covered(host) if host in tls[_]

# A wildcard covers exactly one label.
is_covered(host) if {
	labels := split(host, ".")
	wildcard := concat(".", array.concat(["*"], array.slice(labels, 1, count(labels))))
	wildcard in tls[_]
}

called("") := "every other host"

called(host) := sprintf("host \"%s\"", [host]) if host != ""
