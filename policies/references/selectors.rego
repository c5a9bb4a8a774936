# METADATA
# title: Overlapping selectors
# description: Workloads and budgets that select the same pods.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#selector
package references.selectors

# METADATA
# title: Workload that selects pods of another one
# description: |
#   Two controllers with overlapping selectors may fight over pods, and an autoscaler counts those of both. If each selects the
#   pods of the other, the first of them by kind and name is reported.
# custom:
#   id: REF-09
#   severity: medium
#   excusable: true
deny_overlapping_workloads contains result if {
	is_workload
	some other in workloads
	selects(input, other)
	is_reported(other)
	result := {
		"msg": sprintf("selector also selects the pods of %s \"%s\": give each workload a label of its own", [other.kind, other.metadata.name]),
		"details": {"field": "spec.selector", "value": input.spec.selector, "other": sprintf("%s/%s", [other.kind, other.metadata.name])},
	}
}

# METADATA
# title: Pods with two budgets
# description: |
#   The API server refuses to evict a pod that two PodDisruptionBudgets select, so its node cannot be drained. The first budget by
#   name is reported. Pods without a Deployment, StatefulSet or DaemonSet are not compared.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/run-application/configure-pdb/
# custom:
#   id: REF-22
#   severity: medium
#   excusable: true
deny_overlapping_budgets contains result if {
	input.kind == "PodDisruptionBudget"
	input.apiVersion == "policy/v1"
	some workload in workloads
	selects(input, workload)
	some name, other in data.lib.neighbours.in_namespace("policy/v1", "PodDisruptionBudget")
	name > input.metadata.name
	selects(other, workload)
	result := {
		"msg": sprintf("PodDisruptionBudget \"%s\" selects some of the same pods: change one of the selectors", [name]),
		"details": {"field": "spec.selector", "value": input.spec.selector, "other": name},
	}
}

is_workload if {
	input.kind in {"DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"}
	input.apiVersion == "apps/v1"
	not is_controlled
}

# By a Deployment, which is compared itself.
is_controlled if {
	input.kind == "ReplicaSet"
	some owner in input.metadata.ownerReferences
	owner.controller == true
}

# Without ReplicaSets: those of Deployments are too many to compare.
workloads := [workload |
	some kind in ["DaemonSet", "Deployment", "StatefulSet"]
	some workload in data.lib.pods.objects_beside(kind)
]

# Whether a workload or budget selects the pods of a workload.
selects(item, workload) if {
	labels := data.lib.selectors.labels(workload.spec.template.metadata)
	data.lib.selectors.matches(item.spec.selector, labels)
}

is_reported(other) if not selects(other, input)

is_reported(other) if [input.kind, input.metadata.name] < [other.kind, other.metadata.name]

is_reported(_) if input.kind == "ReplicaSet"
