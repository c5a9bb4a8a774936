# METADATA
# title: Pods of a namespace
# description: |
#   Finds the pods of a namespace and the workloads that create pods, also those that are scaled to zero, and those of some custom
#   kinds with a template at the same place. Each result is an object with the keys `kind`, `name`, `labels`, `annotations` and
#   `spec`; the last three are those of the pod.
package lib.pods

# METADATA
# description: The pods and workloads in the namespace of the input.
beside := of_namespace(input.metadata.namespace) if {
	# mutants: equivalent, because it is what the line above reads: else needs a condition before it.
	input.metadata.namespace
} else := of_namespace("")

# METADATA
# description: The pods and workloads in a namespace; the empty string means manifests without one.
of_namespace(namespace) := {entry(kind, item) |
	some kind in kinds
	some item in objects(namespace, kind)
}

# METADATA
# description: |
#   The pods of a namespace that run, or that a workload keeps running: as of_namespace, without workloads that are scaled to
#   zero or suspended, and without finished pods and Jobs. What a workload created is left out, because that workload is a result,
#   too. The key `creator` is the topmost creator that is known, such as `Deployment/web`.
running_in(namespace) := {found |
	some kind in kinds
	some item in objects(namespace, kind)
	not data.lib.workload.is_of_workload(item)
	not is_idle(kind, item)
	found := object.union(entry(kind, item), {"creator": creator(kind, item)})
}

# METADATA
# description: |
#   The kinds, also some custom ones with a template at the same place. A search for one object finds it sooner in those that are
#   few, which come first.
kinds := [
	"Deployment",
	"StatefulSet",
	"DaemonSet",
	"Rollout",
	"DeploymentConfig",
	"CloneSet",
	"VirtualMachine",
	"ReplicationController",
	"CronJob",
	"Pod",
	"ReplicaSet",
	"Job",
]

# METADATA
# description: The objects of one of the kinds in a namespace; undefined if there are none.
objects(namespace, "Deployment") := data.lib.neighbours.of_namespace(namespace, "apps/v1", "Deployment")

objects(namespace, "StatefulSet") := data.lib.neighbours.of_namespace(namespace, "apps/v1", "StatefulSet")

objects(namespace, "DaemonSet") := data.lib.neighbours.of_namespace(namespace, "apps/v1", "DaemonSet")

objects(namespace, "Rollout") := data.lib.neighbours.of_namespace(namespace, "argoproj.io/v1alpha1", "Rollout")

objects(namespace, "DeploymentConfig") := data.lib.neighbours.of_namespace(namespace, "apps.openshift.io/v1", "DeploymentConfig")

objects(namespace, "CloneSet") := data.lib.neighbours.of_namespace(namespace, "apps.kruise.io/v1alpha1", "CloneSet")

objects(namespace, "VirtualMachine") := data.lib.neighbours.of_namespace(namespace, "kubevirt.io/v1", "VirtualMachine")

objects(namespace, "ReplicationController") := data.lib.neighbours.of_namespace(namespace, "v1", "ReplicationController")

objects(namespace, "CronJob") := data.lib.neighbours.of_namespace(namespace, "batch/v1", "CronJob")

objects(namespace, "Pod") := data.lib.neighbours.of_namespace(namespace, "v1", "Pod")

objects(namespace, "ReplicaSet") := data.lib.neighbours.of_namespace(namespace, "apps/v1", "ReplicaSet")

objects(namespace, "Job") := data.lib.neighbours.of_namespace(namespace, "batch/v1", "Job")

# METADATA
# description: Those in the namespace of the input.
objects_beside(kind) := objects(input.metadata.namespace, kind)

objects_beside(kind) := objects("", kind) if not input.metadata.namespace

# METADATA
# description: The object that has the metadata and the spec of the pod.
pod_of(kind, item) := item if {
	kind == "Pod"
} else := item.spec.jobTemplate.spec.template if {
	kind == "CronJob"
} else := item.spec.template

entry(kind, item) := {
	"kind": kind,
	"name": item.metadata.name,
	"labels": data.lib.selectors.labels(object.get(pod, "metadata", {})),
	"annotations": object.get(pod, ["metadata", "annotations"], {}),
	"spec": pod.spec,
} if {
	pod := pod_of(kind, item)
}

controller(item) := [owner | some owner in item.metadata.ownerReferences; owner.controller == true][0]

is_idle(_, item) if item.spec.replicas == 0

is_idle(_, item) if item.spec.suspend == true

is_idle("Pod", item) if item.status.phase in {"Failed", "Succeeded"}

is_idle("Job", item) if {
	some condition in item.status.conditions
	condition.type in {"Complete", "Failed"}
	condition.status == "True"
}

creator(_, item) := sprintf("%v/%v", [controller(item).kind, controller(item).name])

creator(kind, item) := sprintf("%s/%s", [kind, item.metadata.name]) if not controller(item)

# METADATA
# description: |
#   Whether the selector of a Service selects a pod. Labels that pods get while they run count as those of a template.
selects(selector, _, pod) if data.lib.selectors.matches_map(selector, data.lib.selectors.labels(pod.metadata))

selects(selector, kind, pod) if {
	kind != "Pod"
	labels := data.lib.selectors.labels(pod.metadata)
	given := {key: value | some key, value in selector; not is_given_later(key, labels)}
	data.lib.selectors.matches_map(given, labels)
}

is_given_later(key, labels) if {
	not key in object.keys(labels)
	is_late(key)
}

is_late(key) if key in late_labels

# Labels for the pod that leads.
is_late(key) if regex.match(`(?i)(active|leader|master|primary|role)$`, key)

# Labels that Kubernetes gives to the pods of workloads.
late_labels := {
	"apps.kubernetes.io/pod-index",
	"batch.kubernetes.io/controller-uid",
	"batch.kubernetes.io/job-completion-index",
	"batch.kubernetes.io/job-name",
	"controller-uid",
	"job-name",
	"statefulset.kubernetes.io/pod-name",
}

# METADATA
# description: |
#   Whether a LabelSelector names a label that only single or short-lived pods have. There may be none at the moment, and no
#   template has that label.
is_short_lived(selector) if {
	some key in selected_keys(selector)
	key in late_labels
}

is_short_lived(selector) if {
	some key in selected_keys(selector)
	some prefix in short_lived
	startswith(key, prefix)
}

# Labels of pods that other controllers create for a task.
short_lived := {
	"acme.cert-manager.io/",
	"actions.github.com/",
	"job.runner.gitlab.com/",
	"sparkoperator.k8s.io/",
	"tekton.dev/",
	"workflows.argoproj.io/",
}

selected_keys(selector) := {key | some key, _ in selector.matchLabels} | {key | key := selector.matchExpressions[_].key}
