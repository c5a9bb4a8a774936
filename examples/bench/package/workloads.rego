# METADATA
# title: Workloads
# description: One package with all its rules, a common way to begin with policies
package bench.workloads

pod_spec := input.spec if input.kind == "Pod"

pod_spec := input.spec.template.spec if input.kind in {"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job"}

containers contains container if some container in pod_spec.containers

containers contains container if some container in pod_spec.initContainers

named(container) := sprintf("%s/%s: container %s", [input.kind, input.metadata.name, container.name])

deny contains msg if {
	some container in containers
	not container.resources.limits.cpu
	msg := sprintf("%s has no CPU limit", [named(container)])
}

deny contains msg if {
	some container in containers
	not container.resources.limits.memory
	msg := sprintf("%s has no memory limit", [named(container)])
}

deny contains msg if {
	some container in containers
	not container.resources.requests.cpu
	msg := sprintf("%s requests no CPU", [named(container)])
}

deny contains msg if {
	some container in containers
	not container.resources.requests.memory
	msg := sprintf("%s requests no memory", [named(container)])
}

deny contains msg if {
	some container in containers
	container.securityContext.privileged == true
	msg := sprintf("%s is privileged", [named(container)])
}

deny contains msg if {
	some container in containers
	not container.securityContext.readOnlyRootFilesystem
	msg := sprintf("%s can write to its root file system", [named(container)])
}

deny contains msg if {
	some container in containers
	some capability in container.securityContext.capabilities.add
	capability in {"ALL", "NET_ADMIN", "SYS_ADMIN"}
	msg := sprintf("%s adds the capability %s", [named(container), capability])
}

deny contains msg if {
	some container in containers
	endswith(container.image, ":latest")
	msg := sprintf("%s runs the tag latest", [named(container)])
}

deny contains msg if {
	some container in containers
	not startswith(container.image, "registry.example.com/")
	msg := sprintf("%s runs an image of another registry: %s", [named(container), container.image])
}

deny contains msg if {
	some container in containers
	some variable in container.env
	contains(lower(variable.name), "password")
	variable.value
	msg := sprintf("%s has a password in its variable %s", [named(container), variable.name])
}

deny contains msg if {
	pod_spec.hostNetwork
	msg := sprintf("%s/%s uses the network of its node", [input.kind, input.metadata.name])
}

deny contains msg if {
	some volume in pod_spec.volumes
	volume.hostPath
	msg := sprintf("%s/%s mounts %s of its node", [input.kind, input.metadata.name, volume.hostPath.path])
}
