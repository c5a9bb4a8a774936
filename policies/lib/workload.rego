# METADATA
# title: The pod of a workload
# description: |
#   Finds the pod in a Pod or in any built-in kind with a pod template, and builds results about it.
#   For other kinds, `spec` and `owners` are undefined and `containers` is empty, so rules that iterate over them end at once.
package lib.workload

# Kinds whose template is `spec.template`. Custom kinds of the same name have other versions.
template_kinds := {"DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"}

# Old manifests still have versions that servers no longer support.
versions := {"apps/v1", "apps/v1beta1", "apps/v1beta2", "batch/v1", "batch/v1beta1", "extensions/v1beta1", "v1"}

# METADATA
# description: The object that has the pod's metadata and spec, either the input itself or its template.
holder := input if {
	input.kind == "Pod"
	input.apiVersion == "v1"
} else := input.spec.template if {
	input.kind in template_kinds
	input.apiVersion in versions
} else := input.spec.jobTemplate.spec.template if {
	input.kind == "CronJob"
	input.apiVersion in versions
} else := input.template if {
	input.kind == "PodTemplate"
	input.apiVersion == "v1"
}

spec := holder.spec if is_object(holder.spec)

# METADATA
# description: Whether the input is the API server's copy of a static pod. Such pods have no ServiceAccount.
is_static if holder.metadata.annotations["kubernetes.io/config.mirror"]

# METADATA
# description: |
#   Whether a built-in controller made the input from a template. Its owner has the same results, so an expensive rule need not be
#   evaluated for it.
is_generated if is_of_workload(input)

# METADATA
# description: Whether a built-in controller made an object from a template.
is_of_workload(item) if {
	some owner in item.metadata.ownerReferences
	owner.controller == true
	owner.kind in (template_kinds | {"CronJob"})
	owner.apiVersion in versions
}

# METADATA
# description: Every container with the list it is in, in the order init, main, ephemeral.
containers := [owner |
	some list in ["initContainers", "containers", "ephemeralContainers"]
	container := spec[list][i]
	is_object(container)
	owner := {"list": list, "index": i, "name": name(container), "spec": container}
]

# METADATA
# description: The pod (with an empty `list`) and every container, for settings that both have.
owners := array.concat([{"list": "", "index": 0, "name": "", "spec": spec}], containers)

# METADATA
# description: |
#   The containers that run as long as the pod: the main ones, and init containers that are sidecars (`restartPolicy: Always`).
main_containers := [container | some container in containers; is_main(container)]

is_main(container) if container.list == "containers"

is_main(container) if {
	container.list == "initContainers"
	container.spec.restartPolicy == "Always"
}

# METADATA
# description: The main containers of a workload that does not end by itself.
lasting_containers := [container |
	is_lasting
	some container in containers
	container.list == "containers"
]

lasting_kinds := {"DaemonSet", "Deployment", "ReplicaSet", "ReplicationController", "StatefulSet"}

is_lasting if input.kind in lasting_kinds

# A pod that is expected to end has a restart policy other than the default.
is_lasting if {
	input.kind == "Pod"
	object.get(input, ["spec", "restartPolicy"], "Always") == "Always"
}

# METADATA
# description: The name of a container or volume; an incomplete manifest may have none.
name(part) := object.get(part, "name", "")

is_windows if spec.os.name == "windows"

# METADATA
# description: If `hostUsers` is false, root in the container is an unprivileged user on the node.
in_user_namespace if spec.hostUsers == false

# METADATA
# description: |
#   Whether a container may run as root, outside of a user namespace: neither its settings nor those of the pod exclude it.
may_be_root(container) if {
	not in_user_namespace
	effective(container, "runAsUser") in {0, null}

	# The kubelet refuses to start it as root.
	not effective(container, "runAsNonRoot") == true
}

# The setting of a container takes precedence over that of the pod; null means unset.
effective(container, setting) := value if {
	value := container.spec.securityContext[setting]
	value != null
} else := object.get(spec, ["securityContext", setting], null)

# METADATA
# description: |
#   The path on the node that a container mounts of a hostPath volume, without the link from /var/run to /run.
mounted(volume, mount) := regex.replace(path, `^/var/run(/|$)`, "/run$1") if {
	joined := concat("/", [part |
		# mutants: equivalent, because only text is a part.
		some part in [volume.hostPath.path, object.get(mount, "subPath", null), object.get(mount, "subPathExpr", null)]
		is_string(part)
	])
	path := sprintf("/%s", [concat("/", [name | some name in split(joined, "/"); not name in {"", "."}])])
}

# METADATA
# description: Whether another object owns this one, usually as its controller.
is_owned(object) if count(object.metadata.ownerReferences) > 0

# METADATA
# description: The result for one owner; `text` follows its name in the message.
flaw(owner, field, value, text) := {
	"msg": sprintf("%s %s", [label(owner), text]),
	"details": {
		"container": owner.name,
		"field": sprintf("%s.%s", [path(owner), field]),
		"value": value,
	},
}

# METADATA
# description: The result for a part of the pod that is not a container.
pod_flaw(field, value, msg) := {
	"msg": msg,
	"details": {"field": sprintf("%s.%s", [spec_path, field]), "value": value},
}

# METADATA
# description: The result with the value that its field is to have, for `kaudit check --fix`; null removes the field.
fixed(flaw, value) := object.union(flaw, {"details": {"fix": value}})

# METADATA
# description: The result with a JSON patch or merge patch of the object, for `kaudit check --fix`.
patched(flaw, patch) := object.union(flaw, {"details": {"patch": patch}})

# METADATA
# description: The JSON pointer to a field of the pod's spec, for patches.
pointer(field) := sprintf("/%s/%s", [replace(spec_path, ".", "/"), field])

label(owner) := "pod" if owner.list == ""

label(owner) := sprintf("container \"%v\"", [owner.name]) if owner.list == "containers"

label(owner) := sprintf("init container \"%v\"", [owner.name]) if owner.list == "initContainers"

label(owner) := sprintf("ephemeral container \"%v\"", [owner.name]) if owner.list == "ephemeralContainers"

path(owner) := spec_path if owner.list == ""

path(owner) := sprintf("%s.%s[%d]", [spec_path, owner.list, owner.index]) if owner.list != ""

spec_path := "spec" if {
	input.kind == "Pod"
} else := "template.spec" if {
	input.kind == "PodTemplate"
} else := "spec.jobTemplate.spec.template.spec" if {
	input.kind == "CronJob"
} else := "spec.template.spec"

metadata_path := sprintf("%smetadata", [trim_suffix(spec_path, "spec")])
