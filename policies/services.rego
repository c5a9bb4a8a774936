# METADATA
# title: Services
# description: Entry points into the cluster that bypass load balancers and gateways.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/services-networking/service/
package services

# METADATA
# title: External IPs
# description: With externalIPs, a Service can intercept traffic to any other address (CVE-2020-8554).
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/services-networking/service/#external-ips
# custom:
#   id: NET-01
#   severity: high
deny_external_ips contains result if {
	is_service
	addresses := [address | address := input.spec.externalIPs[_]; is_string(address)]
	count(addresses) > 0
	result := {
		"msg": sprintf("service claims the external addresses %s: remove spec.externalIPs", [concat(", ", addresses)]),
		"details": {"field": "spec.externalIPs", "value": addresses, "fix": null},
	}
}

# METADATA
# title: Node ports
# description: A NodePort Service is open on every node and bypasses the ingress and its TLS.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/services-networking/service/#type-nodeport
# custom:
#   id: NET-02
#   severity: low
#   frameworks: {nsa-1.2: [network-policies]}
warn_node_port contains result if {
	is_service
	input.spec.type == "NodePort"
	result := {
		"msg": "service opens a port on every node: use type ClusterIP behind an Ingress or a Gateway",
		"details": {"field": "spec.type", "value": "NodePort"},
	}
}

is_service if {
	input.kind == "Service"
	input.apiVersion == "v1"
}
