# METADATA
# title: "Practices: network policies"
# description: Rules that make a NetworkPolicy ineffective.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/services-networking/network-policies/
package practices.network_policies

# METADATA
# title: NetworkPolicy that accepts everything
# description: |
#   A rule for incoming traffic with neither peers nor ports accepts all traffic, whatever other policies for the same pods deny.
#   Such a rule for outgoing traffic is mostly on purpose and is not reported.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/services-networking/network-policies/#allow-all-ingress-traffic
# custom:
#   id: NP-03
#   severity: info
#   frameworks: {cis-1.12: ["5.3.2"], nsa-1.2: [network-policies]}
warn_open_ingress contains result if {
	input.kind == "NetworkPolicy"
	input.apiVersion == "networking.k8s.io/v1"
	is_for_ingress
	rule := input.spec.ingress[i]
	every list in ["from", "ports"] {
		data.lib.selectors.given(rule, list, []) == []
	}
	result := {
		"msg": sprintf("spec.ingress[%d] accepts all traffic: name its peers in from, or its ports", [i]),
		"details": {"field": sprintf("spec.ingress[%d].from", [i]), "value": null},
	}
}

is_for_ingress if "Ingress" in input.spec.policyTypes

# Unset, and as an empty list, it is Ingress, and Egress if there are rules for it.
is_for_ingress if data.lib.selectors.given(input.spec, "policyTypes", []) == []
