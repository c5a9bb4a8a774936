package practices.services_test

service(patch) := object.union(
	{
		"apiVersion": "v1",
		"kind": "Service",
		"metadata": {"name": "web"},
		"spec": {"type": "LoadBalancer", "selector": {"app": "web"}, "ports": [{"port": 443}]},
	},
	patch,
)

annotated(annotations) := service({"metadata": {"annotations": annotations}})

ranges(values) := service({"spec": {"loadBalancerSourceRanges": values}})

# For the pages of the rules.
examples := {"warn_open_load_balancer": {
	"violating": service({}),
	"correct": ranges(["192.0.2.0/24"]),
}}

results(item) := found if found := data.practices.services.warn_open_load_balancer with input as item

test_open if {
	results(service({})) == {{
		"msg": "load balancer accepts all addresses: set spec.loadBalancerSourceRanges, or make it internal",
		"details": {"field": "spec.loadBalancerSourceRanges", "value": []},
	}}
}

test_other_services if {
	every patch in [
		{"spec": {"type": "ClusterIP"}},
		{"spec": {"type": "NodePort"}},
		{"spec": {"type": null}},
		{"apiVersion": "serving.example.com/v1"},
		{"kind": "VirtualService"},
	] {
		results(service(patch)) == set()
	}
}

test_ranges if {
	every values in [["192.0.2.0/24"], ["192.0.2.0/24", " 198.51.100.7/32"]] {
		results(ranges(values)) == set()
	}
	every values in [null, [], ["0.0.0.0/0"], [" 0.0.0.0/0 "], ["192.0.2.0/24", "::/0"]] {
		count(results(ranges(values))) == 1
	}
}

test_ranges_in_annotations if {
	every name in [
		"service.beta.kubernetes.io/load-balancer-source-ranges",
		"service.beta.kubernetes.io/azure-allowed-ip-ranges",
		"service.beta.kubernetes.io/azure-allowed-service-tags",
		"service.beta.kubernetes.io/aws-load-balancer-security-groups",
		"service.beta.kubernetes.io/do-loadbalancer-allow-rules",
	] {
		results(annotated({name: "192.0.2.0/24"})) == set()
		every value in ["", null, "0.0.0.0/0", "192.0.2.0/24,0.0.0.0/0"] {
			count(results(annotated({name: value}))) == 1
		}
	}
	count(results(annotated({"example.com/ranges": "192.0.2.0/24"}))) == 1
}

test_internal_by_name_of_the_annotation if {
	every name in [
		"service.beta.kubernetes.io/aws-load-balancer-internal",
		"service.beta.kubernetes.io/azure-load-balancer-internal",
		"service.beta.kubernetes.io/openstack-internal-load-balancer",
		"service.beta.kubernetes.io/scw-loadbalancer-private",
		"load-balancer.hetzner.cloud/disable-public-network",
	] {
		results(annotated({name: "true"})) == set()
		every value in ["false", "False", "", null] {
			count(results(annotated({name: value}))) == 1
		}
	}
	count(results(annotated({"load-balancer.hetzner.cloud/use-private-ip": "true"}))) == 1
}

test_internal_by_value_of_the_annotation if {
	every name, value in {
		"networking.gke.io/load-balancer-type": "Internal",
		"service.beta.kubernetes.io/aws-load-balancer-scheme": "internal",
		"service.beta.kubernetes.io/alibaba-cloud-loadbalancer-address-type": "intranet",
		"service.kubernetes.io/ibm-load-balancer-cloud-provider-ip-type": "private",
	} {
		results(annotated({name: value})) == set()
		count(results(annotated({name: "public"}))) == 1
	}
}

test_internal_by_default if {
	facing := {"metadata": {"annotations": {"service.beta.kubernetes.io/aws-load-balancer-scheme": "internet-facing"}}}
	every class in ["service.k8s.aws/nlb", "eks.amazonaws.com/nlb", "tailscale"] {
		results(service({"spec": {"loadBalancerClass": class}})) == set()
		count(results(service(object.union(facing, {"spec": {"loadBalancerClass": class}})))) == 1
	}
	count(results(service({"spec": {"loadBalancerClass": "example.com/public"}}))) == 1
	every type in ["external", "nlb-ip"] {
		by_type := annotated({"service.beta.kubernetes.io/aws-load-balancer-type": type})
		results(by_type) == set()
		count(results(object.union(by_type, facing))) == 1
	}
	count(results(annotated({"service.beta.kubernetes.io/aws-load-balancer-type": "nlb"}))) == 1
}

with_addresses(addresses) := service({"status": {"loadBalancer": {"ingress": [{"ip": address} | some address in addresses]}}})

test_addresses if {
	every address in ["10.1.2.3", "100.64.0.1", "172.31.0.1", "192.168.0.1", "fd00::1"] {
		results(with_addresses([address])) == set()
		count(results(with_addresses([address, "192.0.2.1"]))) == 1
	}
	every address in ["192.0.2.1", "172.32.0.1", "2001:db8::1"] {
		count(results(with_addresses([address]))) == 1
	}
	count(results(with_addresses([]))) == 1
	count(results(service({"status": {"loadBalancer": {"ingress": [{"hostname": "lb.example.com"}]}}}))) == 1
}
