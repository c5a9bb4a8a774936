package practices.network_policies_test

import data.lib.build_test as build

policy(spec) := {
	"apiVersion": "networking.k8s.io/v1",
	"kind": "NetworkPolicy",
	"metadata": {"name": "web"},
	"spec": object.union({"podSelector": {}}, spec),
}

peer := {"podSelector": {"matchLabels": {"app": "api"}}}

# For the pages of the rules.
examples := {"warn_open_ingress": {
	"violating": policy({"policyTypes": ["Ingress"], "ingress": [{}]}),
	"correct": policy({"policyTypes": ["Ingress"], "ingress": [{"from": [peer]}]}),
}}

results(item) := found if found := data.practices.network_policies.warn_open_ingress with input as item

test_everything_is_accepted if {
	results(policy({"ingress": [{}]})) == {{
		"msg": "spec.ingress[0] accepts all traffic: name its peers in from, or its ports",
		"details": {"field": "spec.ingress[0].from", "value": null},
	}}
	every rule in [{"from": null}, {"from": []}, {"ports": null}, {"from": [], "ports": []}] {
		build.fields(results(policy({"ingress": [{"from": [peer]}, rule]}))) == {"spec.ingress[1].from"}
	}
	every types in [null, [], ["Ingress"], ["Egress", "Ingress"]] {
		count(results(policy({"policyTypes": types, "ingress": [{}]}))) == 1
	}
}

test_something_is_denied if {
	every rule in [{"from": [peer]}, {"from": [{"namespaceSelector": {}}]}, {"ports": [{"port": 443}]}, {"from": [], "ports": [{"port": 443}]}] {
		results(policy({"ingress": [rule]})) == set()
	}
	every ingress in [null, []] {
		results(policy({"ingress": ingress})) == set()
	}
}

test_outgoing_traffic if {
	results(policy({"policyTypes": ["Egress"], "egress": [{}]})) == set()
	results(policy({"policyTypes": ["Egress"], "ingress": [{}]})) == set()
}

test_other_kinds if {
	every patch in [{"kind": "NetworkSet"}, {"apiVersion": "crd.projectcalico.org/v1"}] {
		results(object.union(policy({"ingress": [{}]}), patch)) == set()
	}
}
