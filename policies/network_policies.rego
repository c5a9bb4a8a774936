# METADATA
# title: Network policies
# description: Which traffic the pods of a Namespace accept and send.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/services-networking/network-policies/
package network_policies

# METADATA
# title: Namespace without isolation
# description: |
#   Pods that no NetworkPolicy selects accept traffic from every pod of the cluster, so one compromised pod reaches them all. Not
#   reported are pods in the network of their node, and Namespaces with a policy of Cilium, Calico, Antrea or Amazon EKS, or all of
#   them if there is a policy for the whole cluster.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/services-networking/network-policies/#default-deny-all-ingress-and-all-egress-traffic
# custom:
#   id: NP-01
#   severity: medium
#   lookups: complete
#   frameworks: {cis-1.12: ["5.3.2"], nsa-1.2: [network-policies]}
deny_unselected_pods contains result if {
	namespace := data.lib.namespaces.name
	not has_other_policy
	workloads := {pod.creator |
		some pod in data.lib.pods.running_in(namespace)
		not pod.spec.hostNetwork == true
		not is_selected(namespace, pod.labels)
	}
	count(workloads) > 0
	result := {
		"msg": "namespace has pods that no NetworkPolicy selects: add one that selects all pods and denies by default",
		"details": {"workloads": array.slice(sort(workloads), 0, 10)},
	}
}

# METADATA
# title: NetworkPolicy that selects nothing
# description: |
#   A policy whose podSelector matches no pod and no workload of its Namespace is not in force, mostly because of a wrong label. The
#   severity is low for a peer in the same Namespace: its traffic stays blocked. Not reported in a Namespace without pods and
#   workloads, nor for labels that only short-lived pods have.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/services-networking/network-policies/#networkpolicy-resource
# custom:
#   id: NP-02
#   severity: medium
#   lookups: complete
#   frameworks: {cis-1.12: ["5.3.2"], nsa-1.2: [network-policies]}
deny_unmatched_pods contains result if {
	is_network_policy
	some found in unmatched
	result := object.union(
		{
			"msg": sprintf("%s matches no pod of the namespace: correct its labels, or remove it", [found.field]),
			"details": {"field": found.field, "value": found.selector},
		},
		found.severity,
	)
}

# METADATA
# title: Peer that matches no Namespace
# description: |
#   A rule for a namespaceSelector that matches no Namespace has no effect: the traffic that it is to allow stays blocked. Mostly the
#   label is wrong; each Namespace has its name as the label kubernetes.io/metadata.name.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/services-networking/network-policies/#targeting-a-namespace-by-its-name
# custom:
#   id: NP-04
#   severity: low
#   lookups: complete
#   frameworks: {cis-1.12: ["5.3.2"], nsa-1.2: [network-policies]}
warn_unmatched_namespaces contains result if {
	is_network_policy
	some peer in peers
	is_object(peer.spec.namespaceSelector)
	not data.lib.namespaces.selects_any(peer.spec.namespaceSelector)
	field := sprintf("%s.namespaceSelector", [peer.field])
	result := {
		"msg": sprintf("%s matches no Namespace: correct its labels, or remove the peer", [field]),
		"details": {"field": field, "value": peer.spec.namespaceSelector},
	}
}

is_network_policy if {
	input.kind == "NetworkPolicy"
	input.apiVersion == "networking.k8s.io/v1"
}

is_selected(namespace, labels) if {
	some policy in data.lib.neighbours.of_namespace(namespace, "networking.k8s.io/v1", "NetworkPolicy")
	data.lib.selectors.matches(data.lib.selectors.given(policy.spec, "podSelector", {}), labels)
}

# Policies of other APIs count without regard to what they select.
has_other_policy if data.lib.namespaces.has("cilium.io/v2", "CiliumNetworkPolicy")

has_other_policy if data.lib.namespaces.has("crd.antrea.io/v1beta1", "NetworkPolicy")

has_other_policy if data.lib.namespaces.has("crd.projectcalico.org/v1", "NetworkPolicy")

has_other_policy if data.lib.namespaces.has("networking.k8s.aws/v1alpha1", "ApplicationNetworkPolicy")

has_other_policy if data.lib.namespaces.has("projectcalico.org/v3", "NetworkPolicy")

has_other_policy if is_in_cluster("cilium.io/v2", "CiliumClusterwideNetworkPolicy")

has_other_policy if is_in_cluster("crd.antrea.io/v1beta1", "ClusterNetworkPolicy")

has_other_policy if is_in_cluster("crd.projectcalico.org/v1", "GlobalNetworkPolicy")

has_other_policy if is_in_cluster("networking.k8s.aws/v1alpha1", "ClusterNetworkPolicy")

has_other_policy if is_in_cluster("policy.networking.k8s.io/v1alpha1", "AdminNetworkPolicy")

has_other_policy if is_in_cluster("policy.networking.k8s.io/v1alpha1", "BaselineAdminNetworkPolicy")

has_other_policy if is_in_cluster("policy.networking.k8s.io/v1alpha2", "ClusterNetworkPolicy")

has_other_policy if is_in_cluster("projectcalico.org/v3", "GlobalNetworkPolicy")

is_in_cluster(version, kind) if count(data.lib.neighbours.of_cluster(version, kind)) > 0

# The selectors that match no pod; that of the policy only, if it does not, because then its peers do not matter.
unmatched := [own_selection] if {
	is_unmatched(own_selection)
} else := [selection |
	some selection in peer_selections
	is_unmatched(selection)
]

is_unmatched(selection) if {
	pods := data.lib.pods.beside
	count(pods) > 0
	is_object(selection.selector)
	not data.lib.pods.is_short_lived(selection.selector)
	every pod in pods {
		not data.lib.selectors.matches(selection.selector, pod.labels)
	}
}

own_selection := {
	"field": "spec.podSelector",
	"selector": data.lib.selectors.given(input.spec, "podSelector", {}),
	"severity": {},
}

peer_selections contains {"field": field, "selector": selector, "severity": {"severity": "low"}} if {
	some peer in peers
	selector := peer.spec.podSelector
	object.get(peer.spec, "namespaceSelector", null) == null
	field := sprintf("%s.podSelector", [peer.field])
}

peers contains {"field": sprintf("spec.%s[%d].%s[%d]", [direction, i, list, j]), "spec": peer} if {
	some direction, list in {"egress": "to", "ingress": "from"}
	peer := input.spec[direction][i][list][j]
}
