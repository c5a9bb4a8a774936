package network_policies_test

import data.lib.build_test as build

shop := {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}

policy(spec) := policy_in("shop", spec)

policy_in(namespace, spec) := {
	"apiVersion": "networking.k8s.io/v1",
	"kind": "NetworkPolicy",
	"metadata": {"name": "web", "namespace": namespace},
	"spec": spec,
}

# A Deployment whose pods have the label app.
deployment(app, patch) := object.union(
	{
		"apiVersion": "apps/v1",
		"kind": "Deployment",
		"metadata": {"name": app, "namespace": "shop"},
		"spec": {"replicas": 2, "template": {"metadata": {"labels": {"app": app}}, "spec": {"containers": []}}},
	},
	patch,
)

web := deployment("web", {})

api := deployment("api", {})

selecting(app) := {"matchLabels": {"app": app}}

# For the pages of the rules; with the objects beside each of both.
examples := {
	"deny_unselected_pods": {
		"violating": shop,
		"correct": shop,
		"beside": {"violating": [web], "correct": [web, policy({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})]},
	},
	"deny_unmatched_pods": {
		"violating": policy({"podSelector": selecting("wep"), "policyTypes": ["Ingress"]}),
		"correct": policy({"podSelector": selecting("web"), "policyTypes": ["Ingress"]}),
		"beside": {"violating": [web], "correct": [web]},
	},
	"warn_unmatched_namespaces": {
		"violating": policy({"podSelector": {}, "ingress": [{"from": [{"namespaceSelector": {"matchLabels": {"name": "kube-system"}}}]}]}),
		"correct": policy({"podSelector": {}, "ingress": [{"from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}]}]}),
		"beside": {"violating": [], "correct": []},
	},
}

test_examples if {
	every rule, example in examples {
		count(data.network_policies[rule]) == 1 with input as example.violating with data.inventory as build.inventory(example.beside.violating)
		count(data.network_policies[rule]) == 0 with input as example.correct with data.inventory as build.inventory(example.beside.correct)
	}
}

unselected(objects) := results if {
	results := data.network_policies.deny_unselected_pods with input as shop with data.inventory as build.inventory(objects)
}

test_isolated if {
	every selectors in [
		[{}],
		[null],
		[{"matchLabels": null}],
		[selecting("web")],
		[selecting("api"), selecting("web")],
		[{"matchExpressions": [{"key": "app", "operator": "Exists"}]}],
	] {
		policies := [object.union(policy({"podSelector": selector}), {"metadata": {"name": sprintf("p-%d", [i])}}) | some i, selector in selectors]
		unselected(array.concat([web], policies)) == set()
	}
	unselected([web, policy({})]) == set()
}

test_not_isolated if {
	unselected([web]) == {{
		"msg": "namespace has pods that no NetworkPolicy selects: add one that selects all pods and denies by default",
		"details": {"workloads": ["Deployment/web"]},
	}}
	every others in [
		[policy({"podSelector": selecting("api")})],
		[policy_in("bank", {"podSelector": {}})],
		[object.union(policy({"podSelector": {}}), {"apiVersion": "example.com/v1"})],
	] {
		count(unselected(array.concat([web], others))) == 1
	}
}

test_only_workloads_that_are_not_selected_are_named if {
	{result.details.workloads | some result in unselected([web, api, policy({"podSelector": selecting("web")})])} == {["Deployment/api"]}
}

test_at_most_ten_are_named if {
	many := [deployment(sprintf("web-%d", [i]), {}) | some i in numbers.range(10, 29)]
	some result in unselected(many)
	result.details.workloads == [sprintf("Deployment/web-%d", [i]) | some i in numbers.range(10, 19)]
}

test_every_kind_of_pod if {
	pod := object.union(build.pod({}), {"metadata": {"namespace": "shop"}})
	every workload in array.concat([pod], build.workloads_in("shop", {})) {
		count(unselected([workload])) == count([workload | workload.kind != "PodTemplate"])
	}
}

test_nothing_to_isolate if {
	every objects in [
		[],
		[deployment("web", {"spec": {"replicas": 0}})],
		[deployment("web", {"spec": {"template": {"spec": {"hostNetwork": true}}}})],
		[deployment("web", {"metadata": {"namespace": "bank"}})],
		[object.union(build.pod({}), {"metadata": {"namespace": "shop"}, "status": {"phase": "Succeeded"}})],
	] {
		unselected(objects) == set()
	}
	count(unselected([deployment("web", {"spec": {"template": {"spec": {"hostNetwork": false}}}})])) == 1
}

test_system_namespaces_and_other_kinds if {
	every other in [
		object.union(shop, {"metadata": {"name": "kube-system"}}),
		object.union(shop, {"kind": "Node"}),
		object.union(shop, {"apiVersion": "example.com/v1"}),
	] {
		store := build.inventory([object.union(web, {"metadata": {"namespace": other.metadata.name}})])
		count(data.network_policies.deny_unselected_pods) == 0 with input as other with data.inventory as store
	}
}

test_policies_of_other_apis if {
	every kind in [
		["cilium.io/v2", "CiliumNetworkPolicy"],
		["crd.antrea.io/v1beta1", "NetworkPolicy"],
		["crd.projectcalico.org/v1", "NetworkPolicy"],
		["networking.k8s.aws/v1alpha1", "ApplicationNetworkPolicy"],
		["projectcalico.org/v3", "NetworkPolicy"],
	] {
		other := {"apiVersion": kind[0], "kind": kind[1], "metadata": {"name": "a", "namespace": "shop"}}
		unselected([web, other]) == set()
		count(unselected([web, object.union(other, {"metadata": {"namespace": "bank"}})])) == 1
	}
	every kind in [
		["cilium.io/v2", "CiliumClusterwideNetworkPolicy"],
		["crd.antrea.io/v1beta1", "ClusterNetworkPolicy"],
		["crd.projectcalico.org/v1", "GlobalNetworkPolicy"],
		["networking.k8s.aws/v1alpha1", "ClusterNetworkPolicy"],
		["policy.networking.k8s.io/v1alpha1", "AdminNetworkPolicy"],
		["policy.networking.k8s.io/v1alpha1", "BaselineAdminNetworkPolicy"],
		["policy.networking.k8s.io/v1alpha2", "ClusterNetworkPolicy"],
		["projectcalico.org/v3", "GlobalNetworkPolicy"],
	] {
		unselected([web, {"apiVersion": kind[0], "kind": kind[1], "metadata": {"name": "a"}}]) == set()
	}
	count(unselected([web, {"apiVersion": "crd.projectcalico.org/v1", "kind": "NetworkSet", "metadata": {"name": "a"}}])) == 1

	# An inventory may list a kind without objects.
	none := object.union(build.inventory([web]), {"cluster": {"cilium.io/v2": {"CiliumClusterwideNetworkPolicy": {}}}})
	count(data.network_policies.deny_unselected_pods) == 1 with input as shop with data.inventory as none
}

unmatched(spec, objects) := fields if {
	results := data.network_policies.deny_unmatched_pods with input as policy(spec) with data.inventory as build.inventory(objects)
	fields := {[result.details.field, object.get(result, "severity", "as the rule's")] | some result in results}
}

from(peer) := {"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}, peer]}]}

test_policy_that_matches_pods if {
	every selector in [{}, null, selecting("web"), {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["api"]}]}] {
		unmatched({"podSelector": selector}, [web, api]) == set()
	}
	unmatched({}, [web]) == set()
	unmatched({"podSelector": selecting("web")}, [deployment("web", {"spec": {"replicas": 0}}), api]) == set()
	pod := object.union(build.pod({}), {"metadata": {"namespace": "shop", "labels": {"app": "web", "role": "leader"}}})
	unmatched({"podSelector": {"matchLabels": {"role": "leader"}}}, [web, pod]) == set()
}

test_policy_that_matches_nothing if {
	every selector in [selecting("wep"), {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}] {
		unmatched({"podSelector": selector}, [web, api]) == {["spec.podSelector", "as the rule's"]}
	}
	elsewhere := deployment("wep", {"metadata": {"namespace": "bank"}})
	unmatched({"podSelector": selecting("wep")}, [web, elsewhere]) == {["spec.podSelector", "as the rule's"]}
}

test_empty_namespace_and_short_lived_pods if {
	unmatched({"podSelector": selecting("web")}, []) == set()
	unmatched({"podSelector": selecting("web")}, [deployment("web", {"metadata": {"namespace": "bank"}})]) == set()
	unmatched({"podSelector": {"matchLabels": {"acme.cert-manager.io/http01-solver": "true"}}}, [web]) == set()
}

test_manifests_without_namespaces if {
	store := build.inventory([object.remove(web, ["metadata"]), object.union(object.remove(web, ["metadata"]), {"metadata": {"name": "web"}})])
	own := object.union(object.remove(policy({"podSelector": selecting("wep")}), ["metadata"]), {"metadata": {"name": "web"}})
	count(data.network_policies.deny_unmatched_pods) == 1 with input as own with data.inventory as store
}

test_peers_that_match_nothing if {
	unmatched(from({"podSelector": selecting("wep")}), [web]) == {["spec.ingress[0].from[1].podSelector", "low"]}
	unmatched(from({"podSelector": selecting("wep"), "namespaceSelector": null}), [web]) == {["spec.ingress[0].from[1].podSelector", "low"]}
	spec := {"podSelector": {}, "egress": [{}, {"to": [{"podSelector": selecting("wep")}]}]}
	unmatched(spec, [web]) == {["spec.egress[1].to[0].podSelector", "low"]}
}

test_other_peers if {
	every peer in [
		{"podSelector": selecting("web")},
		{"podSelector": {}},
		{"podSelector": null, "namespaceSelector": {}},
		{"podSelector": "web"},
		{"podSelector": selecting("wep"), "namespaceSelector": {}},
		{"ipBlock": {"cidr": "192.0.2.0/24"}},
		{"podSelector": {"matchLabels": {"acme.cert-manager.io/http01-solver": "true"}}},
	] {
		unmatched(from(peer), [web]) == set()
	}
	unmatched(object.union(from({"podSelector": selecting("wep")}), {"podSelector": selecting("wep")}), [web]) == {["spec.podSelector", "as the rule's"]}
	unmatched({"podSelector": {}, "ingress": null, "egress": [{"to": null}]}, [web]) == set()
}

test_message_names_the_selector if {
	results := data.network_policies.deny_unmatched_pods with input as policy({"podSelector": selecting("wep")}) with data.inventory as build.inventory([web])
	results == {{
		"msg": "spec.podSelector matches no pod of the namespace: correct its labels, or remove it",
		"details": {"field": "spec.podSelector", "value": selecting("wep")},
	}}
}

unmatched_namespaces(spec, objects) := fields if {
	results := data.network_policies.warn_unmatched_namespaces with input as policy(spec) with data.inventory as build.inventory(objects)
	fields := build.fields(results)
}

test_peer_in_a_namespace if {
	every selector in [null, {}, {"matchLabels": {"kubernetes.io/metadata.name": "shop"}}, "shop"] {
		unmatched_namespaces(from({"namespaceSelector": selector}), [shop]) == set()
	}
	unmatched_namespaces(from({"podSelector": selecting("wep")}), [shop]) == set()

	# An ingress rule has peers in `from`, an egress rule in `to`.
	gone := [{"namespaceSelector": {"matchLabels": {"name": "shop"}}}]
	unmatched_namespaces({"ingress": [{"to": gone}], "egress": [{"from": gone}]}, [shop]) == set()
}

test_peer_in_no_namespace if {
	every peer in [
		{"namespaceSelector": {"matchLabels": {"name": "shop"}}},
		{"namespaceSelector": {"matchLabels": {"name": "shop"}}, "podSelector": selecting("web")},
	] {
		unmatched_namespaces(from(peer), [shop]) == {"spec.ingress[0].from[1].namespaceSelector"}
		unmatched_namespaces({"egress": [{"to": [peer]}]}, [shop]) == {"spec.egress[0].to[0].namespaceSelector"}
	}
	selector := {"matchLabels": {"name": "shop"}}
	results := data.network_policies.warn_unmatched_namespaces with input as policy(from({"namespaceSelector": selector})) with data.inventory as {}
	results == {{
		"msg": "spec.ingress[0].from[1].namespaceSelector matches no Namespace: correct its labels, or remove the peer",
		"details": {"field": "spec.ingress[0].from[1].namespaceSelector", "value": selector},
	}}
}

test_other_kinds_are_no_network_policies if {
	every patch in [{"kind": "NetworkSet"}, {"apiVersion": "crd.projectcalico.org/v1"}] {
		spec := object.union(from({"namespaceSelector": {"matchLabels": {"name": "shop"}}}), {"podSelector": selecting("wep")})
		other := object.union(policy(spec), patch)
		count(data.network_policies.deny_unmatched_pods) == 0 with input as other with data.inventory as build.inventory([web])
		count(data.network_policies.warn_unmatched_namespaces) == 0 with input as other with data.inventory as build.inventory([web])
	}
}
