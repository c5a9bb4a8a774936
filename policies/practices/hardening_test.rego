package practices.hardening_test

import data.lib.build_test as build

import data.practices.hardening

# For the pages of the rules.
examples := {
	"warn_root_group": {
		"violating": build.small(build.context({"fsGroup": 0}), {}),
		"correct": build.small(build.context({"fsGroup": 1000}), {}),
	},
	"deny_writable_system_directory": {
		"violating": mounting({}, "/etc/kubernetes", {"mountPath": "/etc/kubernetes"}),
		"correct": mounting({}, "/etc/kubernetes", {"mountPath": "/etc/kubernetes", "readOnly": true}),
	},
	"warn_bare_pod": {
		"violating": build.small({}, {}),
		"correct": {
			"apiVersion": "apps/v1",
			"kind": "Deployment",
			"metadata": {"name": "web"},
			"spec": {
				"selector": {"matchLabels": {"app": "web"}},
				"template": {"metadata": {"labels": {"app": "web"}}, "spec": build.small({}, {}).spec},
			},
		},
	},
	"warn_duplicate_variable": {
		"violating": build.small({}, {"env": [{"name": "LOG_LEVEL", "value": "info"}, {"name": "LOG_LEVEL", "value": "debug"}]}),
		"correct": build.small({}, {"env": [{"name": "LOG_LEVEL", "value": "debug"}]}),
	},
	"warn_ssh_port": {
		"violating": build.small({}, {"ports": [{"containerPort": 8080}, {"containerPort": 22}]}),
		"correct": build.small({}, {"ports": [{"containerPort": 8080}]}),
	},
}

# A Pod with a container that mounts a path of the node.
mounting(settings, path, mount) := build.small(
	object.union({"volumes": [{"name": "node", "hostPath": {"path": path}}]}, settings),
	{"volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}, object.union({"name": "node"}, mount)]},
)

test_root_group if {
	every field, context in {
		"fsGroup": {"fsGroup": 0},
		"runAsGroup": {"runAsGroup": 0},
		"supplementalGroups": {"supplementalGroups": [1000, 0]},
	} {
		every workload in build.with_pod(build.context(context)) {
			results := hardening.warn_root_group with input as workload
			build.messages(results) == {sprintf("pod has the root group 0: set securityContext.%s to another group, or remove it", [field])}
		}
	}
	every workload in build.with_container(build.context({"runAsGroup": 0})) {
		count(hardening.warn_root_group) == 1 with input as workload
	}
	two := hardening.warn_root_group with input as build.pod(build.context({"runAsGroup": 0, "fsGroup": 0}))
	{result.details | some result in two} == {
		{"container": "", "field": "spec.securityContext.runAsGroup", "value": 0},
		{"container": "", "field": "spec.securityContext.fsGroup", "value": 0},
	}
}

test_other_groups if {
	every context in [
		null,
		{},
		{"runAsGroup": 1000, "fsGroup": 1000, "supplementalGroups": [1000]},
		{"runAsGroup": null, "fsGroup": null, "supplementalGroups": null},
		{"supplementalGroups": []},
		{"runAsUser": 0},
	] {
		count(hardening.warn_root_group) == 0 with input as build.pod(build.context(context))
	}
}

test_root_group_of_no_effect if {
	every settings in [{"hostUsers": false}, {"os": {"name": "windows"}}] {
		pod := build.pod(object.union(settings, build.context({"runAsGroup": 0})))
		count(hardening.warn_root_group) == 0 with input as pod
	}
	count(hardening.warn_root_group) == 1 with input as build.pod(object.union({"hostUsers": true, "os": {"name": "linux"}}, build.context({"runAsGroup": 0})))
}

test_writable_system_directories if {
	every path in [
		"/",
		"/etc",
		"/etc/",
		"/sys",
		"/sys/fs",
		"/sys/fs/cgroup",
		"/var",
		"/var/lib",
		"/var/lib/kubelet",
		"/bin",
		"/boot",
		"/lib/modules",
		"/lib64",
		"/proc",
		"/proc/sys",
		"/root",
		"/sbin",
		"/usr/local/bin",
		"/etc/cni/net.d",
		"/etc/cron.d",
		"/etc/kubernetes/manifests",
		"/etc/ssh",
		"/etc/sudoers.d",
		"/etc/systemd/system",
		"/sys/kernel/security",
		"/var/lib/containerd",
		"/var/lib/docker/volumes",
		"/var/lib/etcd",
		"/var/lib/rancher",
		"/var/lib/kubelet/pki",
		"/var/lib/kubelet/pods",
	] {
		count(hardening.deny_writable_system_directory) == 1 with input as mounting({}, path, {"mountPath": "/host"})
	}
	every workload in build.workloads(mounting({}, "/etc", {"mountPath": "/host"}).spec) {
		count(hardening.deny_writable_system_directory) == 1 with input as workload
	}
}

test_other_directories if {
	every path in [
		"/data",
		"/etc/calico",
		"/etcd",
		"/libs",
		"/opt",
		"/run",
		"/sys/fs/bpf",
		"/var/log",
		"/var/lib/app",
		"/var/lib/kubelet/plugins",
		"/var/lib/kubelet/device-plugins",
		"/srv/etc",
	] {
		count(hardening.deny_writable_system_directory) == 0 with input as mounting({}, path, {"mountPath": "/host"})
	}
}

test_system_directories_that_are_not_writable if {
	every settings in [{"hostUsers": false}, build.context({"runAsUser": 65534}), build.context({"runAsNonRoot": true})] {
		count(hardening.deny_writable_system_directory) == 0 with input as mounting(settings, "/etc", {"mountPath": "/host"})
	}
	read_only := mounting({}, "/etc", {"mountPath": "/host", "readOnly": true})
	count(hardening.deny_writable_system_directory) == 0 with input as read_only
	narrow := mounting({}, "/etc", {"mountPath": "/host", "subPath": "app"})
	count(hardening.deny_writable_system_directory) == 0 with input as narrow
	every volume in [{"name": "node", "emptyDir": {}}, {"name": "node", "hostPath": null}, {"name": "other", "hostPath": {"path": "/etc"}}] {
		pod := object.union(mounting({}, "/etc", {"mountPath": "/host"}), {"spec": {"volumes": [volume]}})
		count(hardening.deny_writable_system_directory) == 0 with input as pod
	}
}

test_writable_mounts_of_every_container if {
	every list in ["initContainers", "containers", "ephemeralContainers"] {
		pod := build.pod({
			"volumes": [{"name": "node", "hostPath": {"path": "/etc"}}],
			list: [{"name": "web", "volumeMounts": [{"name": "node", "mountPath": "/host", "readOnly": false}]}],
		})
		results := hardening.deny_writable_system_directory with input as pod
		build.fields(results) == {sprintf("spec.%s[0].volumeMounts[0].readOnly", [list])}
		{result.details.value | some result in results} == {false}
	}
}

test_writable_system_directory_result if {
	results := hardening.deny_writable_system_directory with input as mounting({}, "/etc", {"mountPath": "/host"})
	results == {{
		"msg": "container \"web\" can write to /etc of the node: set readOnly: true in the mount of \"node\"",
		"details": {"container": "web", "field": "spec.containers[0].volumeMounts[1].readOnly", "value": null},
	}}
}

test_bare_pods if {
	every spec in [{}, {"restartPolicy": "Always"}, {"restartPolicy": null}] {
		results := hardening.warn_bare_pod with input as build.pod(spec)
		results == {{
			"msg": "pod has no controller that replaces it: create it by a Deployment, StatefulSet or DaemonSet",
			"details": {"field": "kind", "value": "Pod"},
		}}
	}
	every metadata in [{"ownerReferences": []}, {"ownerReferences": null}, {"annotations": null}, {"annotations": {"note": "x"}}] {
		count(hardening.warn_bare_pod) == 1 with input as object.union(build.pod({}), {"metadata": metadata})
	}
}

test_pods_that_nothing_replaces_on_purpose if {
	every policy in ["Never", "OnFailure"] {
		count(hardening.warn_bare_pod) == 0 with input as build.pod({"restartPolicy": policy})
	}
	every metadata in [
		{"ownerReferences": [{"kind": "ReplicaSet", "name": "web", "controller": true}]},
		{"annotations": {"kubernetes.io/config.mirror": "1"}},
	] {
		count(hardening.warn_bare_pod) == 0 with input as object.union(build.pod({}), {"metadata": metadata})
	}
	every workload in build.workloads({}) {
		count(hardening.warn_bare_pod) == count([1 | workload.kind == "Pod"]) with input as workload
	}
	count(hardening.warn_bare_pod) == 0 with input as object.union(build.pod({}), {"apiVersion": "example.com/v1"})
}

test_duplicate_variables if {
	every workload in build.with_container({"env": [{"name": "A", "value": "1"}, {"name": "B"}, {"name": "A", "value": "1"}]}) {
		results := hardening.warn_duplicate_variable with input as workload
		count(results) == 1
		{result.details.value | some result in results} == {"A"}
		every result in results {
			endswith(result.details.field, ".env[0].name")
		}
	}
	three := hardening.warn_duplicate_variable with input as build.pod_with_container({"env": [{"name": "A"}, {"name": "A"}, {"name": "A"}]})
	build.fields(three) == {"spec.containers[0].env[0].name", "spec.containers[0].env[1].name"}
	build.messages(three) == {"container \"web\" sets the variable A more than once, and only the last value counts: remove the others"}
}

test_variables_of_different_names if {
	every env in [null, [], [{"name": "A"}], [{"name": "A"}, {"name": "a"}], [{"value": "1"}, {"value": "1"}], [{"name": null}, {"name": null}], [{"name": 1}, {"name": 1}]] {
		count(hardening.warn_duplicate_variable) == 0 with input as build.pod_with_container({"env": env})
	}
	pod := build.pod({"containers": [{"name": "a", "env": [{"name": "A"}]}, {"name": "b", "env": [{"name": "A"}]}]})
	count(hardening.warn_duplicate_variable) == 0 with input as pod
}

test_ssh_ports if {
	every port in [{"containerPort": 22}, {"containerPort": 22, "protocol": "TCP"}, {"containerPort": 22, "protocol": null}] {
		every workload in build.with_container({"ports": [{"containerPort": 80}, port]}) {
			results := hardening.warn_ssh_port with input as workload
			count(results) == 1
			every result in results {
				endswith(result.details.field, ".ports[1].containerPort")
			}
		}
	}
	results := hardening.warn_ssh_port with input as examples.warn_ssh_port.violating
	results == {{
		"msg": "container \"web\" offers SSH on port 22: remove the SSH server, and use kubectl exec",
		"details": {"container": "web", "field": "spec.containers[0].ports[1].containerPort", "value": 22},
	}}
}

test_other_ports if {
	every ports in [null, [], [{"containerPort": 2222}, {"containerPort": "22"}, {"containerPort": 80, "hostPort": 22}], [{"containerPort": 22, "protocol": "UDP"}]] {
		count(hardening.warn_ssh_port) == 0 with input as build.pod_with_container({"ports": ports})
	}
}

test_good_workloads if {
	found := ((hardening.warn_root_group | hardening.deny_writable_system_directory) | hardening.warn_duplicate_variable) | hardening.warn_ssh_port
	every workload in build.workloads(build.spec) {
		count(found) == 0 with input as workload
	}
}
