# METADATA
# title: References of autoscalers
# description: The workload that a HorizontalPodAutoscaler scales.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/workloads/autoscaling/horizontal-pod-autoscale/
# custom: {excusable: true}
package references.scaling

# METADATA
# title: Autoscaler without target
# description: |
#   A HorizontalPodAutoscaler whose target does not exist scales nothing. Targets of custom kinds are not checked.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale-walkthrough/
# custom:
#   id: REF-04
#   severity: medium
#   lookups: complete
deny_missing_target contains result if {
	is_autoscaler
	target := input.spec.scaleTargetRef
	[target.apiVersion, target.kind] in checked_kinds
	is_string(target.name)
	count(targets) == 0
	result := {
		"msg": sprintf("scale target %s \"%s\" does not exist: create it, or correct spec.scaleTargetRef", [target.kind, target.name]),
		"details": {"field": "spec.scaleTargetRef.name", "value": target.name},
	}
}

# METADATA
# title: Autoscaler without a request to measure by
# description: |
#   Utilization is a percentage of the requests. If a container of the target has none for the resource, the autoscaler does not
#   scale by it. Requests that a limit, the pod or a LimitRange sets count.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/workloads/autoscaling/horizontal-pod-autoscale/#how-does-a-horizontalpodautoscaler-work
# custom:
#   id: REF-20
#   severity: medium
deny_missing_request contains result if {
	is_autoscaler
	some measure in measures
	some target in targets
	pod := target.spec.template.spec
	some container in pod.containers
	is_measured(container, measure)
	not data.lib.resources.is_requested(container, measure.resource)
	not data.lib.resources.is_requested(pod, measure.resource)
	not measure.resource in data.lib.resources.default_requests
	result := {
		"msg": sprintf("container \"%v\" of the target has no %s request, so its utilization is unknown: set resources.requests.%s", [data.lib.workload.name(container), measure.resource, measure.resource]),
		"details": {"field": measure.field, "value": measure.resource, "container": data.lib.workload.name(container)},
	}
}

is_autoscaler if {
	input.kind == "HorizontalPodAutoscaler"
	input.apiVersion in {"autoscaling/v1", "autoscaling/v2"}
}

checked_kinds := {
	["apps/v1", "Deployment"],
	["apps/v1", "ReplicaSet"],
	["apps/v1", "StatefulSet"],
	["v1", "ReplicationController"],
}

# One object, or none.
targets contains data.lib.neighbours.in_namespace("apps/v1", "Deployment")[input.spec.scaleTargetRef.name] if {
	input.spec.scaleTargetRef.kind == "Deployment"
}

targets contains data.lib.neighbours.in_namespace("apps/v1", "ReplicaSet")[input.spec.scaleTargetRef.name] if {
	input.spec.scaleTargetRef.kind == "ReplicaSet"
}

targets contains data.lib.neighbours.in_namespace("apps/v1", "StatefulSet")[input.spec.scaleTargetRef.name] if {
	input.spec.scaleTargetRef.kind == "StatefulSet"
}

targets contains data.lib.neighbours.in_namespace("v1", "ReplicationController")[input.spec.scaleTargetRef.name] if {
	input.spec.scaleTargetRef.kind == "ReplicationController"
}

# The resources whose utilization counts, each for one container or for all of them (null).
measures contains {"resource": "cpu", "container": null, "field": "spec.targetCPUUtilizationPercentage"} if {
	is_number(input.spec.targetCPUUtilizationPercentage)
}

measures contains {"resource": source.name, "container": null, "field": sprintf("spec.metrics[%d].resource", [i])} if {
	some i, metric in input.spec.metrics
	metric.type == "Resource"
	source := metric.resource
	source.target.type == "Utilization"
}

measures contains {"resource": source.name, "container": source.container, "field": sprintf("spec.metrics[%d].containerResource", [i])} if {
	some i, metric in input.spec.metrics
	metric.type == "ContainerResource"
	source := metric.containerResource
	source.target.type == "Utilization"
}

is_measured(container, measure) if measure.container in {null, data.lib.workload.name(container)}
