# METADATA
# title: Replicas
# description: |
#   How many pods a workload in the namespace of the input has at least: the minimum of its HorizontalPodAutoscaler, or its
#   `replicas`.
package lib.scaling

# METADATA
# description: The fewest replicas of a workload; undefined if a manifest has no number there.
least_replicas(workload) := fewest if {
	fewest := min(minima(workload))
} else := number(workload.spec, "replicas")

# METADATA
# description: Whether a HorizontalPodAutoscaler scales a workload.
is_autoscaled(workload) if count(minima(workload)) > 0

# METADATA
# description: Whether the input is a Deployment or StatefulSet that always has several replicas.
is_replicated if {
	input.kind in {"Deployment", "StatefulSet"}
	input.apiVersion == "apps/v1"
	least_replicas(input) > 1
}

minima(workload) := {minimum |
	some autoscaler in data.lib.neighbours.in_namespace("autoscaling/v1", "HorizontalPodAutoscaler")
	minimum := minimum_for(autoscaler.spec, workload)
} | {minimum |
	some autoscaler in data.lib.neighbours.in_namespace("autoscaling/v2", "HorizontalPodAutoscaler")
	minimum := minimum_for(autoscaler.spec, workload)
}

minimum_for(spec, workload) := number(spec, "minReplicas") if {
	spec.scaleTargetRef.kind == workload.kind
	spec.scaleTargetRef.name == workload.metadata.name
}

# Null means unset; both numbers are 1 then.
number(spec, field) := value if {
	value := data.lib.selectors.given(spec, field, 1)
	is_number(value)
}
