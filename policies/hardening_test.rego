package hardening_test

import data.lib.build_test as build

# For the pages of the rules.
examples := {
	"deny_runtime_socket": {
		"violating": host_path({}, "/run/containerd/containerd.sock", {"mountPath": "/run/containerd/containerd.sock"}),
		"correct": host_path({}, "/run/log/journal", {"mountPath": "/run/log/journal", "readOnly": true}),
	},
	"warn_writable_root": {
		"violating": build.small({}, {}),
		"correct": build.small({}, {"securityContext": {"readOnlyRootFilesystem": true}}),
	},
}

# A Pod with a container that mounts a path of the node.
host_path(settings, path, mount) := build.small(
	object.union({"volumes": [{"name": "node", "hostPath": {"path": path}}]}, settings),
	{"volumeMounts": [object.union({"name": "node"}, mount)]},
)

sockets := [
	"/run/containerd/containerd.sock",
	"/var/run/docker.sock",
	"/run/crio/crio.sock",
	"/run/cri-dockerd.sock",
	"/var/run/dockershim.sock",
	"/run/user/1000/podman/podman.sock",
	"/run/k3s/containerd/containerd.sock",
	`\\.\pipe\docker_engine`,
	`\\.\pipe\containerd-containerd`,
]

directories := [
	"/",
	"//",
	"/run",
	"/var/run",
	"/var/run/",
	"/run/containerd",
	"/var/run/containerd/",
	"/run/crio",
	"/run/k0s",
	"/run/k3s",
	"/run/k3s/containerd",
	"/run/podman",
	"/var/snap/microk8s/common/run",
]

test_sockets_and_their_directories if {
	every path in array.concat(sockets, directories) {
		pod := host_path({}, path, {"mountPath": "/host", "readOnly": true})
		results := data.hardening.deny_runtime_socket with input as pod
		count(results) == 1
		{result.details.value | some result in results} == {path}
	}
}

test_mounts_of_every_container if {
	every list in ["initContainers", "containers", "ephemeralContainers"] {
		every workload in build.workloads({
			"volumes": [{"name": "node", "hostPath": {"path": "/run"}}],
			list: [{"name": "web", "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}, {"name": "node", "mountPath": "/host"}]}],
		}) {
			count(data.hardening.deny_runtime_socket) == 1 with input as workload
		}
	}
}

test_other_paths if {
	every path in ["/var", "/var/lib", "/run/systemd", "/run/containerd/io", "/runs", "/var/running", "/var/log", "/etc/docker.sock.d", "/run/mydocker.socket", "/run/notdocker.sock"] {
		pod := host_path({}, path, {"mountPath": "/host"})
		count(data.hardening.deny_runtime_socket) == 0 with input as pod
	}
}

test_part_of_a_directory if {
	pod := host_path({}, "/run", {"mountPath": "/host", "subPath": "systemd"})
	count(data.hardening.deny_runtime_socket) == 0 with input as pod
	variable := host_path({}, "/run", {"mountPath": "/host", "subPathExpr": "$(NAME)"})
	count(data.hardening.deny_runtime_socket) == 0 with input as variable
	socket := host_path({}, "/var/run", {"mountPath": "/host", "subPath": "docker.sock"})
	count(data.hardening.deny_runtime_socket) == 1 with input as socket
}

test_volumes_without_a_mount if {
	pod := build.small({"volumes": [{"name": "node", "hostPath": {"path": "/run"}}]}, {"volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}]})
	count(data.hardening.deny_runtime_socket) == 0 with input as pod
	every volume in [{"name": "node", "emptyDir": {}}, {"name": "node", "hostPath": null}, {"name": "node", "hostPath": {"path": null}}] {
		other := object.union(host_path({}, "/run", {"mountPath": "/run"}), {"spec": {"volumes": [volume]}})
		count(data.hardening.deny_runtime_socket) == 0 with input as other
	}
}

# Others than root cannot connect to a socket that happens to be in a directory.
test_directories_and_other_users if {
	every settings in [{"hostUsers": false}, build.context({"runAsUser": 65534}), build.context({"runAsNonRoot": true})] {
		every path in directories {
			pod := host_path(settings, path, {"mountPath": "/host"})
			count(data.hardening.deny_runtime_socket) == 0 with input as pod
		}
		every path in sockets {
			pod := host_path(settings, path, {"mountPath": "/host"})
			count(data.hardening.deny_runtime_socket) == 1 with input as pod
		}
	}
}

test_socket_is_reported_once if {
	mounts := {"volumeMounts": [{"name": "node", "mountPath": "/a"}, {"name": "node", "mountPath": "/b"}]}
	pod := build.pod({
		"volumes": [{"name": "tmp"}, {"name": "node", "hostPath": {"path": "/run/crio/crio.sock"}}],
		"containers": [object.union({"name": "a"}, mounts), object.union({"name": "b"}, mounts)],
	})
	results := data.hardening.deny_runtime_socket with input as pod
	results == {{
		"msg": "volume \"node\" exposes the container runtime's socket by /run/crio/crio.sock: remove it, or narrow the path",
		"details": {"field": "spec.volumes[1].hostPath.path", "value": "/run/crio/crio.sock"},
	}}
}

test_writable_root if {
	every context in [null, {}, {"readOnlyRootFilesystem": false}, {"readOnlyRootFilesystem": null}] {
		every workload in build.workloads({"containers": [{"name": "web", "securityContext": context}]}) {
			count(data.hardening.warn_writable_root) == 1 with input as workload
		}
	}
	results := data.hardening.warn_writable_root with input as build.pod_with_container(build.context({"readOnlyRootFilesystem": false}))
	results == {{
		"msg": "container \"web\" can write to its root file system: set securityContext.readOnlyRootFilesystem: true",
		"details": {"container": "web", "field": "spec.containers[0].securityContext.readOnlyRootFilesystem", "value": false},
	}}
	unset := data.hardening.warn_writable_root with input as examples.warn_writable_root.violating
	[null] == [result.details.value | some result in unset]
}

test_read_only_root if {
	every workload in build.workloads(build.spec) {
		count(data.hardening.warn_writable_root) == 0 with input as workload
	}

	# There is no such setting for a pod.
	pod := build.small(build.context({"readOnlyRootFilesystem": true}), {})
	count(data.hardening.warn_writable_root) == 1 with input as pod
}

test_writable_root_of_sidecars_only if {
	sidecar := build.pod({"initContainers": [{"name": "proxy", "restartPolicy": "Always"}]})
	count(data.hardening.warn_writable_root) == 1 with input as sidecar
	every spec in [{"initContainers": [{"name": "prepare"}]}, {"ephemeralContainers": [{"name": "debug"}]}] {
		count(data.hardening.warn_writable_root) == 0 with input as build.pod(spec)
	}
}

test_writable_root_on_windows if {
	pod := build.pod({"os": {"name": "windows"}, "containers": [{"name": "web"}]})
	count(data.hardening.warn_writable_root) == 0 with input as pod
}

test_other_kinds if {
	pod := object.union(host_path({}, "/run", {"mountPath": "/run"}), {"apiVersion": "example.com/v1"})
	count(data.hardening.deny_runtime_socket | data.hardening.warn_writable_root) == 0 with input as pod
}
