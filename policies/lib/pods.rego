# METADATA
# title: Pods of a namespace
# description: |
#   Finds the pods of a namespace and the workloads that create pods, also those that are scaled to zero. Each result is an object
#   with the keys `kind`, `name`, `labels` and `spec`; the last two are those of the pod.
package lib.pods

# METADATA
# description: The pods and workloads in the namespace of the input.
beside := of_namespace(input.metadata.namespace) if {
	input.metadata.namespace
} else := of_namespace("") if {
	not input.metadata.namespace
}

# METADATA
# description: The pods and workloads in a namespace; the empty string means manifests without one.
of_namespace(namespace) := union({
	{found | some item in data.lib.neighbours.of_namespace(namespace, "v1", "Pod"); found := entry("Pod", item, item)},
	{found | some item in data.lib.neighbours.of_namespace(namespace, "v1", "ReplicationController"); found := templated("ReplicationController", item)},
	{found | some item in data.lib.neighbours.of_namespace(namespace, "apps/v1", "DaemonSet"); found := templated("DaemonSet", item)},
	{found | some item in data.lib.neighbours.of_namespace(namespace, "apps/v1", "Deployment"); found := templated("Deployment", item)},
	{found | some item in data.lib.neighbours.of_namespace(namespace, "apps/v1", "ReplicaSet"); found := templated("ReplicaSet", item)},
	{found | some item in data.lib.neighbours.of_namespace(namespace, "apps/v1", "StatefulSet"); found := templated("StatefulSet", item)},
	{found | some item in data.lib.neighbours.of_namespace(namespace, "batch/v1", "CronJob"); found := entry("CronJob", item, item.spec.jobTemplate.spec.template)},
	{found | some item in data.lib.neighbours.of_namespace(namespace, "batch/v1", "Job"); found := templated("Job", item)},
})

templated(kind, item) := entry(kind, item, item.spec.template)

# `pod` is an object with the metadata and the spec of a pod.
entry(kind, item, pod) := {
	"kind": kind,
	"name": item.metadata.name,
	"labels": data.lib.selectors.labels(object.get(pod, "metadata", {})),
	"spec": pod.spec,
}
