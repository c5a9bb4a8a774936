# METADATA
# title: Hardening
# description: Protection of nodes and containers beyond the Pod Security Standards.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/security/application-security-checklist/
package hardening

# METADATA
# title: Socket of the container runtime
# description: |
#   Through the socket of containerd, CRI-O or Docker, a container controls all others and the node, even if the mount is
#   read-only. A mounted directory that contains the socket counts in containers that may run as root. KPS-B05 reports all hostPath
#   volumes; this rule adds those that amount to control of the node.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/storage/volumes/#hostpath
# - ref: https://kubernetes.io/docs/setup/production-environment/container-runtimes/
# custom:
#   id: POD-01
#   severity: critical
#   frameworks: {cis-1.12: ["5.2.12"], nsa-1.2: [host-paths]}
deny_runtime_socket contains result if {
	volume := data.lib.workload.spec.volumes[i]
	is_string(volume.hostPath.path)
	some container in data.lib.workload.containers
	some mount in container.spec.volumeMounts
	mount.name == volume.name
	exposes_socket(data.lib.workload.mounted(volume, mount), container)
	result := data.lib.workload.pod_flaw(
		sprintf("volumes[%d].hostPath.path", [i]), volume.hostPath.path,
		sprintf("volume \"%v\" exposes the container runtime's socket by %v: remove it, or narrow the path", [volume.name, volume.hostPath.path]),
	)
}

exposes_socket(path, _) if regex.match(`(^|[/\\])(containerd|cri-dockerd|crio|docker|dockershim|podman)\.sock$|\\pipe\\(containerd-containerd|docker_engine)$`, path)

# Other users have no access to it.
exposes_socket(path, container) if {
	path in socket_directories
	data.lib.workload.may_be_root(container)
}

socket_directories := {
	"/",
	"/run",
	"/run/containerd",
	"/run/crio",
	"/run/k0s",
	"/run/k3s",
	"/run/k3s/containerd",
	"/run/podman",
	"/var/snap/microk8s/common/run",
}

# METADATA
# title: Writable root file system
# description: |
#   An attacker can change programs and install tools in a container with a writable root file system. Left out are ephemeral
#   containers, init containers unless they are sidecars (`restartPolicy: Always`), and Windows, which has no such setting.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/configure-pod-container/security-context/
# custom:
#   id: POD-02
#   severity: low
#   frameworks: {nsa-1.2: [immutable-file-system]}
warn_writable_root contains result if {
	some container in data.lib.workload.main_containers
	not container.spec.securityContext.readOnlyRootFilesystem == true
	not data.lib.workload.is_windows
	result := data.lib.workload.flaw(
		container, "securityContext.readOnlyRootFilesystem", object.get(container.spec, ["securityContext", "readOnlyRootFilesystem"], null),
		"can write to its root file system: set securityContext.readOnlyRootFilesystem: true",
	)
}
