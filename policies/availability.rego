# METADATA
# title: Availability
# description: Whether an application keeps running while nodes are drained.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/workloads/pods/disruptions/
package availability

# METADATA
# title: PodDisruptionBudget that blocks evictions
# description: |
#   If no pod may be evicted, nodes cannot be drained, and upgrades of the cluster stop. A budget is compared with the replicas of
#   the Deployments, StatefulSets, ReplicaSets and ReplicationControllers that it selects, or with the minimum of their
#   HorizontalPodAutoscalers. Budgets that have an owner are not reported: an operator may block evictions for a time.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/run-application/configure-pdb/
# custom:
#   id: AVL-01
#   severity: medium
deny_blocking_budget contains result if {
	input.kind == "PodDisruptionBudget"
	input.apiVersion == "policy/v1"
	not data.lib.workload.is_owned(input)

	# mutants: equivalent, because `blocked` has only these fields.
	some field in ["maxUnavailable", "minAvailable"]
	value := input.spec[field]
	whom := blocked(field, value)
	result := {
		"msg": sprintf("budget lets no pod%s be evicted: set maxUnavailable: 1 instead of %s: %v", [whom, field, value]),
		"details": {"field": sprintf("spec.%s", [field]), "value": value},
	}
}

# What the budget blocks, for the message. Percentages are rounded up, so only 0 allows no disruption.
blocked("maxUnavailable", value) := "" if value in {0, "0%"}

blocked("minAvailable", value) := "" if is_all(value)

blocked("minAvailable", value) := sprintf(" of %s", [concat(", ", [workload.name | some workload in selected])]) if {
	not is_all(value)
	replicas := sum([workload.replicas | some workload in selected])
	replicas > 0
	required(value, replicas) >= replicas
}

is_all(value) if percentage(value) >= 100

required(value, _) := value if is_number(value)

required(value, replicas) := ceil((percentage(value) * replicas) / 100)

percentage(value) := to_number(trim_suffix(value, "%")) if regex.match(`^[0-9]+%$`, value)

selected := (({found |
	some item in data.lib.neighbours.in_namespace("apps/v1", "Deployment")
	found := scaled("Deployment", item)
} | {found |
	some item in data.lib.neighbours.in_namespace("apps/v1", "StatefulSet")
	found := scaled("StatefulSet", item)
}) | {found |
	some item in data.lib.neighbours.in_namespace("apps/v1", "ReplicaSet")
	not data.lib.workload.is_owned(item)
	found := scaled("ReplicaSet", item)
}) | {found |
	some item in data.lib.neighbours.in_namespace("v1", "ReplicationController")
	not data.lib.workload.is_owned(item)
	found := scaled("ReplicationController", item)
}

scaled(kind, item) := {
	"name": sprintf("%s %s%s", [kind, item.metadata.name, minimum(item)]),
	"replicas": data.lib.scaling.least_replicas(item),
} if {
	data.lib.selectors.matches(input.spec.selector, data.lib.selectors.labels(item.spec.template.metadata))
}

minimum(item) := " at its HPA's minimum" if data.lib.scaling.is_autoscaled(item)

minimum(item) := "" if not data.lib.scaling.is_autoscaled(item)
