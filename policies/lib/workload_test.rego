package lib.workload_test

import data.lib.build_test as build

paths := [
	"spec",
	"spec.template.spec",
	"spec.template.spec",
	"spec.template.spec",
	"spec.template.spec",
	"spec.template.spec",
	"spec.template.spec",
	"spec.jobTemplate.spec.template.spec",
	"template.spec",
]

test_pod_of_every_kind if {
	workloads := build.workloads(build.spec)
	count(workloads) == count(paths)
	every i, workload in workloads {
		data.lib.workload.spec == build.spec with input as workload
		count(data.lib.workload.containers) == 1 with input as workload
		data.lib.workload.spec_path == paths[i] with input as workload
	}
}

test_kinds_without_pod if {
	every workload in [
		{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}},
		{"apiVersion": "v1", "kind": "Service", "spec": {"template": {"spec": build.spec}}},
		build.templated("serving.example.com/v1", "Deployment", build.spec),
		{"apiVersion": "example.com/v1", "kind": "Pod", "spec": build.spec},
		object.union(build.cron_job(build.spec), {"apiVersion": "batch.example.com/v1"}),
		object.union(build.cron_job(build.spec), {"kind": "CronJobSet"}),
		object.union(build.pod_template(build.spec), {"apiVersion": "example.com/v1"}),
		object.union(build.pod_template(build.spec), {"kind": "PodPreset"}),
		{"apiVersion": "apps/v1", "kind": "Deployment", "spec": {}},
		{},
	] {
		data.lib.workload.containers == [] with input as workload
		not data.lib.workload.holder with input as workload
	}
}

test_versions_of_old_manifests if {
	every version in ["apps/v1beta1", "apps/v1beta2", "extensions/v1beta1"] {
		count(data.lib.workload.containers) == 1 with input as build.templated(version, "Deployment", build.spec)
	}
	old := object.union(build.cron_job(build.spec), {"apiVersion": "batch/v1beta1"})
	count(data.lib.workload.containers) == 1 with input as old
}

test_metadata_path if {
	data.lib.workload.metadata_path == "metadata" with input as build.pod({})
	data.lib.workload.metadata_path == "spec.template.metadata" with input as build.deployment({})
	data.lib.workload.metadata_path == "spec.jobTemplate.spec.template.metadata" with input as build.cron_job({})
}

test_pod_is_the_first_owner if {
	owners := data.lib.workload.owners with input as build.deployment(build.spec)
	owners[0] == {"list": "", "index": 0, "name": "", "spec": build.spec}
	count(owners) == 2
	not data.lib.workload.owners with input as build.deployment(null)
}

test_containers_of_every_list if {
	spec := {
		"containers": [{"name": "a"}, {"name": "b"}],
		"initContainers": [{"name": "c"}],
		"ephemeralContainers": [{"name": "d"}],
	}
	labels := [data.lib.workload.label(owner) | some owner in data.lib.workload.owners] with input as build.pod(spec)
	labels == [
		"pod",
		"init container \"c\"",
		"container \"a\"",
		"container \"b\"",
		"ephemeral container \"d\"",
	]
}

test_incomplete_containers if {
	names := {owner.name | some owner in data.lib.workload.containers} with input as build.pod({
		"containers": [{"image": "a"}, null],
		"initContainers": null,
		"ephemeralContainers": ["b"],
	})
	names == {""}
}

test_flaw_says_where if {
	owners := data.lib.workload.owners with input as build.cron_job(build.spec)
	result := data.lib.workload.flaw(owners[1], "image", "x", "is odd: change it") with input as build.cron_job(build.spec)
	result == {
		"msg": "container \"web\" is odd: change it",
		"details": {
			"container": "web",
			"field": "spec.jobTemplate.spec.template.spec.containers[0].image",
			"value": "x",
		},
	}
	pod := data.lib.workload.flaw(owners[0], "os", "y", "is odd") with input as build.pod(build.spec)
	pod == {"msg": "pod is odd", "details": {"container": "", "field": "spec.os", "value": "y"}}
}

test_windows if {
	data.lib.workload.is_windows with input as build.pod({"os": {"name": "windows"}})
	not data.lib.workload.is_windows with input as build.pod({"os": {"name": "linux"}})
	not data.lib.workload.is_windows with input as build.pod({})
}

test_user_namespace if {
	data.lib.workload.in_user_namespace with input as build.pod({"hostUsers": false})
	not data.lib.workload.in_user_namespace with input as build.pod({"hostUsers": true})
	not data.lib.workload.in_user_namespace with input as build.pod({"hostUsers": null})
	not data.lib.workload.in_user_namespace with input as build.pod({})
}

test_main_containers if {
	spec := {
		"containers": [{"name": "a"}],
		"initContainers": [{"name": "b"}, {"name": "c", "restartPolicy": "Always"}, {"name": "d", "restartPolicy": null}],
		"ephemeralContainers": [{"name": "e"}, {"name": "f", "restartPolicy": "Always"}],
	}
	names := {container.name | some container in data.lib.workload.main_containers} with input as build.pod(spec)
	names == {"a", "c"}
}

possible_roots(pod, container) := names if {
	names := {found.name | some found in data.lib.workload.containers; data.lib.workload.may_be_root(found)} with input as build.pod(object.union({"containers": [object.union({"name": "web"}, container)]}, pod))
}

test_possible_roots if {
	every settings in [
		{},
		{"runAsUser": 0},
		{"runAsUser": null, "runAsNonRoot": null},
		{"runAsNonRoot": false},
		{"runAsUser": 0, "runAsNonRoot": false},
	] {
		possible_roots({}, build.context(settings)) == {"web"}
		possible_roots(build.context(settings), {}) == {"web"}
	}
	possible_roots(build.context({"runAsUser": 1000}), build.context({"runAsUser": 0})) == {"web"}
	possible_roots(build.context({"runAsNonRoot": true}), build.context({"runAsNonRoot": false})) == {"web"}
	possible_roots({"securityContext": null, "hostUsers": true}, {"securityContext": null}) == {"web"}
}

test_no_roots if {
	every settings in [{"runAsUser": 1000}, {"runAsNonRoot": true}, {"runAsUser": 1000, "runAsNonRoot": false}, {"runAsUser": 0, "runAsNonRoot": true}] {
		possible_roots({}, build.context(settings)) == set()
		possible_roots(build.context(settings), {}) == set()
		possible_roots(build.context({"runAsUser": 0, "runAsNonRoot": false}), build.context(settings)) == set()
		possible_roots(build.context(settings), build.context({"runAsUser": null, "runAsNonRoot": null})) == set()
	}
	possible_roots({"hostUsers": false}, build.context({"runAsUser": 0})) == set()
}

test_pods_of_a_workload if {
	controller := {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": true}
	other := {"apiVersion": "example.com/v1", "kind": "Plan", "name": "web"}
	every owners in [[controller], [other, controller]] {
		data.lib.workload.is_of_workload({"metadata": {"ownerReferences": owners}})
	}
	not data.lib.workload.is_of_workload({"metadata": {"ownerReferences": [other]}})
}

test_owned if {
	data.lib.workload.is_owned({"metadata": {"ownerReferences": [{"kind": "Node", "name": "a"}]}})
	every references in [null, []] {
		not data.lib.workload.is_owned({"metadata": {"ownerReferences": references}})
	}
	not data.lib.workload.is_owned({"metadata": {}})
}

test_mounted_paths if {
	every expected, given in {
		"/run/a": [{"path": "/var/run/a/"}, {}],
		"/run": [{"path": "/var/run"}, {"subPath": null}],
		"/var/running": [{"path": "/var/running"}, {}],
		"/": [{"path": "//."}, {}],
		"/etc/ssl": [{"path": "/etc"}, {"subPath": "ssl"}],
		"/etc/$(NAME)": [{"path": "/etc"}, {"subPathExpr": "$(NAME)"}],
	} {
		data.lib.workload.mounted({"hostPath": given[0]}, given[1]) == expected
	}
}
