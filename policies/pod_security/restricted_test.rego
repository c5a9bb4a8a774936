package pod_security.restricted_test

import data.lib.build_test as build

# For the pages of the rules.
examples := {
	"deny_volume_types": {
		"violating": build.small({"volumes": [{"name": "data", "nfs": {"server": "nfs.example.com", "path": "/data"}}]}, {}),
		"correct": build.small({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}, {}),
	},
	"deny_privilege_escalation": {
		"violating": build.small({}, {}),
		"correct": build.small({}, build.context({"allowPrivilegeEscalation": false})),
	},
	"deny_run_as_root": {
		"violating": build.small({}, {}),
		"correct": build.small({}, build.context({"runAsNonRoot": true})),
	},
	"deny_root_user": {
		"violating": build.small({}, build.context({"runAsUser": 0})),
		"correct": build.small({}, build.context({"runAsUser": 1000})),
	},
	"deny_missing_seccomp": {
		"violating": build.small({}, {}),
		"correct": build.small({}, build.context({"seccompProfile": {"type": "RuntimeDefault"}})),
	},
	"deny_capabilities": {
		"violating": build.small({}, {}),
		"correct": build.small({}, build.context({"capabilities": {"drop": ["ALL"]}})),
	},
	"deny_proc_mount": {
		"violating": build.small({"hostUsers": false}, build.context({"procMount": "Unmasked"})),
		"correct": build.small({"hostUsers": false}, {}),
	},
}

test_volume_types if {
	every type in ["nfs", "iscsi", "rbd", "gitRepo", "flexVolume", "cephfs", "glusterfs", "fc", "awsElasticBlockStore", "storageos", "typeOfTomorrow"] {
		every workload in build.with_pod({"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", type: {"x": 1}}]}) {
			results := data.pod_security.restricted.deny_volume_types with input as workload
			count(results) == 1
			every field in build.fields(results) { endswith(field, sprintf("spec.volumes[1].%s", [type])) }
		}
	}
	every type in ["configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret"] {
		every workload in build.with_pod({"volumes": [{"name": "a", type: {}}, {"name": "b", "nfs": null}]}) {
			count(data.pod_security.restricted.deny_volume_types) == 0 with input as workload
		}
	}
	count(data.pod_security.restricted.deny_volume_types) == 0 with input as build.pod({"volumes": null})
}

# Baseline reports it already.
test_host_path_is_not_told_twice if {
	pod := build.pod({"volumes": [{"name": "a", "hostPath": {"path": "/"}}]})
	count(data.pod_security.restricted.deny_volume_types) == 0 with input as pod
	count(data.pod_security.baseline.deny_host_path) == 1 with input as pod
}

test_privilege_escalation if {
	every value in [true, null] {
		every workload in build.with_container(build.context({"allowPrivilegeEscalation": value})) {
			count(data.pod_security.restricted.deny_privilege_escalation) == 1 with input as workload
		}
	}
	every workload in build.with_container(build.context(null)) {
		count(data.pod_security.restricted.deny_privilege_escalation) == 1 with input as workload
	}
	every workload in build.workloads(build.spec) {
		count(data.pod_security.restricted.deny_privilege_escalation) == 0 with input as workload
	}
}

test_run_as_root if {
	every workload in array.concat(
		build.with_pod(build.context({"runAsNonRoot": false})),
		build.with_container(build.context({"runAsNonRoot": false})),
	) {
		count(data.pod_security.restricted.deny_run_as_root) == 1 with input as workload
	}

	# Neither the pod nor the container sets it: reported for each container.
	every workload in array.concat(
		build.with_pod(build.context({"runAsNonRoot": null})),
		build.with_pod({"securityContext": null}),
	) {
		results := data.pod_security.restricted.deny_run_as_root with input as workload
		build.messages(results) == {"container \"web\" may run as root: set securityContext.runAsNonRoot: true"}
	}

	# The container's setting is needed only if the pod has none.
	every value in [true, null] {
		every workload in build.with_container(build.context({"runAsNonRoot": value})) {
			count(data.pod_security.restricted.deny_run_as_root) == 0 with input as workload
		}
	}
	alone := {"containers": [{"name": "web", "securityContext": {"runAsNonRoot": true}}]}
	every workload in build.workloads(alone) {
		count(data.pod_security.restricted.deny_run_as_root) == 0 with input as workload
	}
}

test_root_user if {
	every workload in array.concat(
		build.with_pod(build.context({"runAsUser": 0})),
		build.with_container(build.context({"runAsUser": 0})),
	) {
		count(data.pod_security.restricted.deny_root_user) == 1 with input as workload
	}
	every user in [null, 1, 1000] {
		every workload in array.concat(
			build.with_pod(build.context({"runAsUser": user})),
			build.with_container(build.context({"runAsUser": user})),
		) {
			count(data.pod_security.restricted.deny_root_user) == 0 with input as workload
		}
	}
}

test_root_of_a_user_namespace if {
	spec := {
		"hostUsers": false,
		"securityContext": {"runAsNonRoot": false, "runAsUser": 0},
		"containers": [{"name": "web", "securityContext": {"runAsUser": 0}}],
	}
	every workload in build.workloads(spec) {
		count(data.pod_security.restricted.deny_run_as_root) == 0 with input as workload
		count(data.pod_security.restricted.deny_root_user) == 0 with input as workload
	}
	every workload in build.workloads(object.union(spec, {"hostUsers": true})) {
		count(data.pod_security.restricted.deny_run_as_root) == 1 with input as workload
		count(data.pod_security.restricted.deny_root_user) == 2 with input as workload
	}
}

test_missing_seccomp if {
	every workload in array.concat(
		build.with_pod(build.context({"seccompProfile": null})),
		build.with_pod({"securityContext": null}),
	) {
		count(data.pod_security.restricted.deny_missing_seccomp) == 1 with input as workload
	}
	every profile in [null, {"type": "RuntimeDefault"}] {
		every workload in build.with_container(build.context({"seccompProfile": profile})) {
			count(data.pod_security.restricted.deny_missing_seccomp) == 0 with input as workload
		}
	}
	alone := {"containers": [{"name": "web", "securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "a"}}}]}
	every workload in build.workloads(alone) {
		count(data.pod_security.restricted.deny_missing_seccomp) == 0 with input as workload
	}
}

test_dropped_capabilities if {
	every dropped in [null, [], ["NET_RAW"]] {
		every workload in build.with_container(build.context({"capabilities": {"drop": dropped}})) {
			results := data.pod_security.restricted.deny_capabilities with input as workload
			count(results) == 1
			every message in build.messages(results) { endswith(message, "set securityContext.capabilities.drop: [ALL]") }
		}
	}
	every workload in build.with_container(build.context({"capabilities": {"drop": ["all"]}})) {
		results := data.pod_security.restricted.deny_capabilities with input as workload
		every message in build.messages(results) {
			endswith(message, "drops capabilities as all, which Pod Security admission does not accept: write ALL in capitals")
		}
		count(results) == 1
	}
	every dropped in [["ALL"], ["NET_RAW", "ALL"]] {
		every workload in build.with_container(build.context({"capabilities": {"drop": dropped}})) {
			count(data.pod_security.restricted.deny_capabilities) == 0 with input as workload
		}
	}
}

test_added_capabilities if {
	every workload in build.with_container(build.context({"capabilities": {"add": ["CHOWN", "NET_BIND_SERVICE", "KILL"]}})) {
		results := data.pod_security.restricted.deny_capabilities with input as workload
		every message in build.messages(results) { endswith(message, "adds capabilities: remove CHOWN, KILL") }
		[["NET_BIND_SERVICE"]] == [result.details.fix | some result in results]
	}

	# Baseline reports what is worse.
	every added in [null, [], ["NET_BIND_SERVICE"], ["SYS_ADMIN"]] {
		every workload in build.with_container(build.context({"capabilities": {"add": added}})) {
			count(data.pod_security.restricted.deny_capabilities) == 0 with input as workload
		}
	}
}

test_proc_mount if {
	spec := {"hostUsers": false, "containers": [{"name": "web", "securityContext": {"procMount": "Unmasked"}}]}
	every workload in build.workloads(spec) {
		count(data.pod_security.restricted.deny_proc_mount) == 1 with input as workload
	}

	# Without a user namespace, baseline reports it.
	every workload in build.workloads(object.union(spec, {"hostUsers": true})) {
		count(data.pod_security.restricted.deny_proc_mount) == 0 with input as workload
		count(data.pod_security.baseline.deny_proc_mount) == 1 with input as workload
	}
	every value in ["Default", null] {
		masked := {"hostUsers": false, "containers": [{"name": "web", "securityContext": {"procMount": value}}]}
		every workload in build.workloads(masked) {
			count(data.pod_security.restricted.deny_proc_mount) == 0 with input as workload
		}
	}
}

# Windows has neither capabilities nor seccomp nor setuid, but it has users.
test_windows if {
	spec := {"os": {"name": "windows"}, "containers": [{"name": "web"}]}
	every workload in build.workloads(spec) {
		count(data.pod_security.restricted.deny_capabilities) == 0 with input as workload
		count(data.pod_security.restricted.deny_missing_seccomp) == 0 with input as workload
		count(data.pod_security.restricted.deny_privilege_escalation) == 0 with input as workload
		count(data.pod_security.restricted.deny_run_as_root) == 1 with input as workload
	}
	every workload in build.workloads(object.union(spec, {"os": {"name": "linux"}})) {
		count(data.pod_security.restricted.deny_capabilities) == 1 with input as workload
		count(data.pod_security.restricted.deny_missing_seccomp) == 1 with input as workload
		count(data.pod_security.restricted.deny_privilege_escalation) == 1 with input as workload
	}
}
