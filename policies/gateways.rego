# METADATA
# title: Gateways
# description: Traffic through a Gateway should use TLS.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/services-networking/gateway/
package gateways

# METADATA
# title: Routes without TLS
# description: |
#   Without TLS, anybody on the network path can read and change what users send. A listener for HTTP is reported if a route that is
#   attached to it sends requests to a backend, and not if its routes only redirect or answer challenges for certificates, nor for a
#   Gateway of Istio that is reachable only in the cluster.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/services-networking/gateway/#api-kind-gateway
# custom:
#   id: NET-06
#   severity: medium
#   frameworks: {nsa-1.2: [encryption]}
deny_plain_listener contains result if {
	input.kind == "Gateway"
	input.apiVersion in versions
	not input.metadata.annotations["networking.istio.io/service-type"] == "ClusterIP"
	some i, listener in input.spec.listeners
	listener.protocol == "HTTP"
	routes := {route.label |
		some route in all_routes
		is_attached(route, listener)
		has_backend(route)
	}
	count(routes) > 0
	result := {
		"msg": sprintf("listener \"%v\" serves routes without TLS: use protocol HTTPS, or only redirect to it", [listener.name]),
		"details": {
			"field": sprintf("spec.listeners[%d].protocol", [i]),
			"value": "HTTP",
			"routes": array.slice(sort(routes), 0, 10),
		},
	}
}

versions := {"gateway.networking.k8s.io/v1", "gateway.networking.k8s.io/v1beta1"}

own_namespace := given(input.metadata, "namespace", "")

all_routes := [route |
	some kind, found in {
		"GRPCRoute": data.lib.neighbours.everywhere("gateway.networking.k8s.io/v1", "GRPCRoute"),
		"HTTPRoute": array.concat(
			data.lib.neighbours.everywhere("gateway.networking.k8s.io/v1", "HTTPRoute"),
			data.lib.neighbours.everywhere("gateway.networking.k8s.io/v1beta1", "HTTPRoute"),
		),
	}
	some item in found
	namespace := given(item.metadata, "namespace", "")
	route := {
		"label": sprintf("%s %s", [kind, trim_prefix(sprintf("%s/%s", [namespace, item.metadata.name]), "/")]),
		"namespace": namespace,
		"spec": item.spec,
	}
]

is_attached(route, listener) if {
	some parent in route.spec.parentRefs
	parent.name == input.metadata.name
	given(parent, "namespace", route.namespace) == own_namespace
	given(parent, "kind", "Gateway") == "Gateway"
	given(parent, "group", "gateway.networking.k8s.io") == "gateway.networking.k8s.io"
	given(parent, "sectionName", listener.name) == listener.name
	given(parent, "port", listener.port) == listener.port
	is_allowed(route.namespace, given(given(listener, "allowedRoutes", {}), "namespaces", {}))
	share_a_host(given(route.spec, "hostnames", []), given(listener, "hostname", ""))
}

given(parent, key, otherwise) := data.lib.selectors.given(parent, key, otherwise)

is_allowed(namespace, allowed) if {
	given(allowed, "from", "Same") == "Same"
	namespace == own_namespace
}

is_allowed(_, allowed) if allowed.from == "All"

is_allowed(namespace, allowed) if {
	allowed.from == "Selector"
	data.lib.selectors.matches(allowed.selector, data.lib.namespaces.labels(namespace))
}

share_a_host([], _)

share_a_host(_, "")

share_a_host(hosts, own) if {
	some host in hosts
	some [general, special] in [[own, host], [host, own]]
	covers(general, special)
}

covers(general, special) if general == special

# A wildcard covers one or more labels.
covers(general, special) if {
	startswith(general, "*.")
	endswith(special, substring(general, 1, -1))
}

has_backend(route) if {
	some rule in route.spec.rules
	some _ in rule.backendRefs
	not answers_challenges(rule)
}

# Certificate authorities request the answer without TLS.
answers_challenges(rule) if {
	count(rule.matches) > 0
	every match in rule.matches {
		startswith(match.path.value, "/.well-known/acme-challenge/")
	}
}
