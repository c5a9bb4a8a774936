# METADATA
# title: "Practices: availability"
# description: |
#   What an application needs to keep running while nodes fail or are drained. Off by default, because not every application
#   needs it.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/workloads/pods/disruptions/
package practices.availability

# METADATA
# title: No PodDisruptionBudget
# description: |
#   Without a budget, a drain of several nodes can stop all replicas at once. Only for Deployments and StatefulSets with at least two
#   replicas, by their HorizontalPodAutoscaler if they have one.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/run-application/configure-pdb/
# custom:
#   id: AVL-02
#   severity: low
#   lookups: complete
warn_missing_budget contains result if {
	data.lib.scaling.is_replicated
	not has_budget
	result := {
		"msg": "all replicas may be evicted at once: add a PodDisruptionBudget that selects the labels of the pods",
		"details": {"field": "spec.template.metadata.labels", "value": labels},
	}
}

has_budget if {
	some budget in data.lib.neighbours.in_namespace("policy/v1", "PodDisruptionBudget")
	data.lib.selectors.matches(budget.spec.selector, labels)
}

labels := data.lib.selectors.labels(data.lib.workload.holder.metadata)

# METADATA
# title: Replicas on one node
# description: |
#   Without a rule for their distribution, all replicas may run on one node, and fail with it. The scheduler spreads them by default,
#   but gives other goals precedence. Pods with a `hostPort` are never on one node.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/
# custom:
#   id: AVL-03
#   severity: info
#   lookups: optional
warn_unspread_replicas contains result if {
	data.lib.scaling.is_replicated
	not is_spread(data.lib.workload.spec)
	not takes_host_port
	result := data.lib.workload.pod_flaw(
		"topologySpreadConstraints", null,
		"all replicas may run on one node: set topologySpreadConstraints or affinity.podAntiAffinity",
	)
}

is_spread(spec) if count(spec.topologySpreadConstraints) > 0

is_spread(spec) if {
	some terms in spec.affinity.podAntiAffinity
	count(terms) > 0
}

takes_host_port if {
	some container in data.lib.workload.containers
	some port in container.spec.ports
	port.hostPort > 0
}

# METADATA
# title: One replica
# description: |
#   A Service with a single pod fails when its node is drained. Not for Deployments with a HorizontalPodAutoscaler, nor for those that
#   cannot have two pods: with the strategy `Recreate`, or with a claim for a volume, nor if the Service selects other workloads, too.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#scaling-a-deployment
# custom:
#   id: AVL-04
#   severity: info
#   lookups: complete
warn_single_replica contains result if {
	is_deployment
	data.lib.scaling.least_replicas(input) == 1
	not data.lib.scaling.is_autoscaled(input)
	not is_recreated
	count(claims) == 0
	serves_alone
	result := {
		"msg": "the Service has only one pod, which stops when its node is drained: set spec.replicas to 2 or more",
		"details": {"field": "spec.replicas", "value": 1},
	}
}

# Whether a Service selects the pods of the input and no others.
serves_alone if {
	some service in data.lib.neighbours.in_namespace("v1", "Service")
	data.lib.services.selects_pod(service)
	not has_other_pod(service.spec.selector)
}

has_other_pod(selector) if {
	some pod in data.lib.pods.running_in(object.get(input.metadata, "namespace", ""))
	pod.creator != sprintf("Deployment/%s", [input.metadata.name])
	data.lib.selectors.matches_map(selector, pod.labels)
}

# METADATA
# title: HorizontalPodAutoscaler that cannot scale
# description: |
#   With equal limits, the number of replicas never changes.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/
# custom:
#   id: AVL-05
#   severity: low
warn_fixed_autoscaler contains result if {
	input.kind == "HorizontalPodAutoscaler"
	startswith(input.apiVersion, "autoscaling/")
	data.lib.scaling.number(input.spec, "minReplicas") == input.spec.maxReplicas
	result := {
		"msg": sprintf("autoscaler always sets %v replicas: raise spec.maxReplicas, or remove the autoscaler", [input.spec.maxReplicas]),
		"details": {"field": "spec.maxReplicas", "value": input.spec.maxReplicas},
	}
}

# METADATA
# title: Eviction of broken pods
# description: |
#   By default, pods that are not ready count as needed: if an application never becomes ready, its nodes cannot be drained. Not
#   reported if the field is set.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/run-application/configure-pdb/#unhealthy-pod-eviction-policy
# custom:
#   id: AVL-06
#   severity: info
warn_protected_broken_pods contains result if {
	input.kind == "PodDisruptionBudget"
	input.apiVersion == "policy/v1"
	data.lib.selectors.given(input.spec, "unhealthyPodEvictionPolicy", "") == ""
	not data.lib.workload.is_owned(input)
	result := {
		"msg": "budget blocks the eviction of pods that are not ready: set unhealthyPodEvictionPolicy: AlwaysAllow",
		"details": {"field": "spec.unhealthyPodEvictionPolicy", "value": null},
	}
}

# METADATA
# title: Recreate strategy
# description: |
#   Each rollout stops all pods before it starts new ones, and the Service has none in the meantime. Only for at least two replicas, and
#   not for pods with a `hostPort` or a claim that one node at a time can mount.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#strategy
# custom:
#   id: AVL-07
#   severity: info
warn_recreate contains result if {
	is_deployment
	is_recreated
	data.lib.scaling.is_replicated
	not takes_host_port
	every claim in claims { is_shared(claim) }
	data.lib.services.select_pod
	result := {
		"msg": "each rollout stops all pods of the Service at once: set spec.strategy.type: RollingUpdate",
		"details": {"field": "spec.strategy.type", "value": "Recreate"},
	}
}

is_deployment if {
	input.kind == "Deployment"
	input.apiVersion == "apps/v1"
}

is_recreated if input.spec.strategy.type == "Recreate"

claims := {name |
	some volume in data.lib.workload.spec.volumes
	name := volume.persistentVolumeClaim.claimName
}

is_shared(claim) if {
	some mode in data.lib.neighbours.in_namespace("v1", "PersistentVolumeClaim")[claim].spec.accessModes
	mode in {"ReadOnlyMany", "ReadWriteMany"}
}
