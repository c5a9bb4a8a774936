# METADATA
# title: "Practices: services"
# description: Services that are reachable from outside of the cluster.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/services-networking/service/#loadbalancer
package practices.services

# METADATA
# title: Load balancer open to all
# description: |
#   Every address that reaches the load balancer reaches the Service, often from the whole Internet. Not reported if an annotation
#   restricts the addresses or makes the load balancer internal, or if it has only private addresses.
# custom:
#   id: NET-05
#   severity: low
#   frameworks: {nsa-1.2: [network-policies]}
warn_open_load_balancer contains result if {
	input.kind == "Service"
	input.apiVersion == "v1"
	input.spec.type == "LoadBalancer"
	not is_restricted
	not is_internal
	result := {
		"msg": "load balancer accepts all addresses: set spec.loadBalancerSourceRanges, or make it internal",
		"details": {"field": "spec.loadBalancerSourceRanges", "value": ranges},
	}
}

ranges := [value | value := input.spec.loadBalancerSourceRanges[_]]

is_restricted if {
	count(ranges) > 0
	every value in ranges {
		not trim_space(value) in {"0.0.0.0/0", "::/0"}
	}
}

# Names such as service.beta.kubernetes.io/load-balancer-source-ranges and …/azure-allowed-ip-ranges.
is_restricted if {
	some name, value in settings
	regex.match(`source-ranges|allowed-ip-ranges|allowed-service-tags|security-groups|allow-rules`, name)
	not contains(value, "0.0.0.0/0")
}

# Names such as service.beta.kubernetes.io/aws-load-balancer-internal and …/azure-load-balancer-internal.
is_internal if {
	some name, value in settings
	regex.match(`internal|-private$|disable-public-network`, name)
	value != "false"
}

# Values such as those of networking.gke.io/load-balancer-type and service.beta.kubernetes.io/aws-load-balancer-scheme.
is_internal if {
	some _, value in settings
	value in {"internal", "intranet", "private"}
}

# The AWS Load Balancer Controller makes a load balancer internal by default, and Tailscale serves only its own network.
is_internal if {
	input.spec.loadBalancerClass in {"eks.amazonaws.com/nlb", "service.k8s.aws/nlb", "tailscale"}
	not "internet-facing" in {value | some _, value in settings}
}

# The same, selected by annotation.
is_internal if {
	settings["service.beta.kubernetes.io/aws-load-balancer-type"] in {"external", "nlb-ip"}
	not "internet-facing" in {value | some _, value in settings}
}

is_internal if {
	addresses := [address | address := input.status.loadBalancer.ingress[_].ip]
	count(addresses) > 0
	every address in addresses {
		is_private(address)
	}
}

is_private(address) if {
	some range in ["10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"]
	net.cidr_contains(range, address)
}

# The annotations that have a value, in lower case.
settings := {name: lower(value) |
	some name, value in input.metadata.annotations
	value != ""
}
