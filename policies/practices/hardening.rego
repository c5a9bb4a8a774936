# METADATA
# title: "Practices: hardening"
# description: Settings of pods that are seldom intended. They are off by default, because some applications need them.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/security/application-security-checklist/
package practices.hardening

# METADATA
# title: Root group
# description: |
#   Files of the group 0 are those of root on many nodes and in many images. Reported if the manifest sets the group; not on
#   Windows, nor if the pod has its own user namespace. Images that are made for a random user need the group.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/configure-pod-container/security-context/
# custom:
#   id: POD-03
#   severity: low
#   frameworks: {nsa-1.2: [non-root]}
warn_root_group contains result if {
	some owner in data.lib.workload.owners
	some field in group_fields(owner.spec.securityContext)
	not data.lib.workload.is_windows
	not data.lib.workload.in_user_namespace
	result := data.lib.workload.flaw(
		owner, sprintf("securityContext.%s", [field]), 0,
		sprintf("has the root group 0: set securityContext.%s to another group, or remove it", [field]),
	)
}

group_fields(context) := {field | some field in ["fsGroup", "runAsGroup"]; context[field] == 0} | {"supplementalGroups" |
	0 in context.supplementalGroups
}

# METADATA
# title: Writable system directory of the node
# description: |
#   A root user who can write to these directories controls the node. KPS-B05 reports all hostPath volumes; this rule adds writable
#   mounts of directories that belong to the operating system, the kubelet, etcd or the container runtime.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/storage/volumes/#hostpath
# custom:
#   id: POD-04
#   severity: critical
#   frameworks: {cis-1.12: ["5.2.12"], nsa-1.2: [host-paths]}
deny_writable_system_directory contains result if {
	volume := data.lib.workload.spec.volumes[_]
	is_string(volume.hostPath.path)
	some container in data.lib.workload.containers
	mount := container.spec.volumeMounts[i]
	mount.name == volume.name
	not mount.readOnly == true
	path := data.lib.workload.mounted(volume, mount)
	is_system_directory(path)
	data.lib.workload.may_be_root(container)
	result := data.lib.workload.flaw(
		container, sprintf("volumeMounts[%d].readOnly", [i]), object.get(mount, "readOnly", null),
		sprintf("can write to %s of the node: set readOnly: true in the mount of \"%v\"", [path, volume.name]),
	)
}

# Others below them belong to network plugins and drivers.
is_system_directory(path) if {
	regex.match(`^/(etc|sys|sys/fs|sys/fs/cgroup|var|var/lib|var/lib/kubelet)?$`, path)
}

is_system_directory(path) if {
	regex.match(`^/(bin|boot|lib|lib64|proc|root|sbin|usr|etc/(cni|cron[^/]*|kubernetes|ssh|sudoers[^/]*|systemd)|sys/kernel|var/lib/(containerd|docker|etcd|rancher|kubelet/(pki|pods)))(/|$)`, path)
}

# METADATA
# title: Pod without a controller
# description: |
#   If its node fails or is drained, no other pod replaces it. Pods that are expected to end (`restartPolicy` other than
#   `Always`) and static pods are not reported.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/workloads/pods/#working-with-pods
# custom:
#   id: POD-05
#   severity: low
warn_bare_pod contains result if {
	input.kind == "Pod"
	input.apiVersion == "v1"
	data.lib.selectors.given(input.spec, "restartPolicy", "Always") == "Always"
	not data.lib.workload.is_owned(input)
	not data.lib.workload.is_static
	result := {
		"msg": "pod has no controller that replaces it: create it by a Deployment, StatefulSet or DaemonSet",
		"details": {"field": "kind", "value": "Pod"},
	}
}

# METADATA
# title: Duplicate environment variable
# description: Only the last value counts, and an update by server-side apply can lose one of them.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/inject-data-application/define-environment-variable-container/
# custom:
#   id: POD-06
#   severity: low
warn_duplicate_variable contains result if {
	some container in data.lib.workload.containers

	# mutants: equivalent, because names that are no text are left out below.
	names := [object.get(variable, "name", null) | some variable in container.spec.env]
	some i, name in names
	is_string(name)
	name in array.slice(names, i + 1, count(names))
	result := data.lib.workload.flaw(
		container, sprintf("env[%d].name", [i]), name,
		sprintf("sets the variable %v more than once, and only the last value counts: remove the others", [name]),
	)
}

# METADATA
# title: SSH in a container
# description: |
#   An SSH server needs keys and an account of its own, and the API server neither authorises nor audits its sessions. Some
#   services, such as Git servers, offer SSH on purpose.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/debug/debug-application/get-shell-running-container/
# custom:
#   id: POD-07
#   severity: info
warn_ssh_port contains result if {
	some container in data.lib.workload.containers
	port := container.spec.ports[i]
	port.containerPort == 22
	data.lib.selectors.given(port, "protocol", "TCP") == "TCP"
	result := data.lib.workload.flaw(
		container, sprintf("ports[%d].containerPort", [i]), 22,
		"offers SSH on port 22: remove the SSH server, and use kubectl exec",
	)
}
