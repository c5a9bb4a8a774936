# METADATA
# title: Pods of a namespace
# description: |
#   Finds the pods of a namespace and the workloads that create pods, also those that are scaled to zero, and those of some custom
#   kinds with a template at the same place. Each result is an object with the keys `kind`, `name`, `labels` and `spec`; the last two are those of the pod.
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
	{found | some item in data.lib.neighbours.of_namespace(namespace, "apps.kruise.io/v1alpha1", "CloneSet"); found := templated("CloneSet", item)},
	{found | some item in data.lib.neighbours.of_namespace(namespace, "apps.openshift.io/v1", "DeploymentConfig"); found := templated("DeploymentConfig", item)},
	{found | some item in data.lib.neighbours.of_namespace(namespace, "argoproj.io/v1alpha1", "Rollout"); found := templated("Rollout", item)},
	{found | some item in data.lib.neighbours.of_namespace(namespace, "kubevirt.io/v1", "VirtualMachine"); found := templated("VirtualMachine", item)},
})

templated(kind, item) := entry(kind, item, item.spec.template)

# `pod` is an object with the metadata and the spec of a pod.
entry(kind, item, pod) := {
	"kind": kind,
	"name": item.metadata.name,
	"labels": data.lib.selectors.labels(object.get(pod, "metadata", {})),
	"spec": pod.spec,
}

# METADATA
# description: |
#   The pods and workloads beside the input that the selector of a Service selects. Labels that pods get while they run count
#   as those of the template.
selected(selector) := {item | some item in beside; selects(selector, item)}

selects(selector, item) if data.lib.selectors.matches_map(selector, item.labels)

selects(selector, item) if {
	item.kind != "Pod"
	given := {key: value | some key, value in selector; not is_given_later(key, item.labels)}
	data.lib.selectors.matches_map(given, item.labels)
}

is_given_later(key, labels) if {
	not key in object.keys(labels)
	is_late(key)
}

# Labels that Kubernetes gives to the pods of workloads.
is_late(key) if key in {
	"apps.kubernetes.io/pod-index",
	"batch.kubernetes.io/controller-uid",
	"batch.kubernetes.io/job-completion-index",
	"batch.kubernetes.io/job-name",
	"controller-uid",
	"job-name",
	"statefulset.kubernetes.io/pod-name",
}

# Labels for the pod that leads.
is_late(key) if regex.match(`(?i)(active|leader|master|primary|role)$`, key)
