package lib.pods_test

import data.lib.build_test as build
import data.lib.pods

workloads := array.concat(
	[workload | some workload in build.workloads({"containers": []}); workload.kind != "PodTemplate"],
	[build.templated(version, kind, {"containers": []}) |
		some kind, version in {
			"CloneSet": "apps.kruise.io/v1alpha1",
			"DeploymentConfig": "apps.openshift.io/v1",
			"Rollout": "argoproj.io/v1alpha1",
			"VirtualMachine": "kubevirt.io/v1",
		}
	],
)

in_shop(objects) := [object.union(item, {"metadata": {"namespace": "shop"}}) | some item in objects]

test_each_kind_is_found if {
	expected := {[workload.kind, workload.metadata.name] | some workload in workloads}
	found := pods.of_namespace("shop") with data.inventory as build.inventory(in_shop(workloads))
	{[item.kind, item.name] | some item in found} == expected
	every item in found {
		item.spec == {"containers": []}
	}
}

# Custom kinds may have other fields beside the template.
test_only_cron_jobs_have_a_template_for_jobs if {
	item := {"spec": {"jobTemplate": {"spec": {"template": {"metadata": {"name": "job"}}}}, "template": {"metadata": {"name": "pod"}}}}
	every kind, name in {"CronJob": "job", "Rollout": "pod"} {
		pods.pod_of(kind, item).metadata.name == name
	}
}

test_only_the_own_namespace if {
	elsewhere := object.union(build.deployment({}), {"metadata": {"namespace": "other"}})
	store := build.inventory(array.concat(in_shop([build.pod({})]), [elsewhere]))
	service := {"kind": "Service", "metadata": {"namespace": "shop"}}
	{item.kind | some item in pods.beside} == {"Pod"} with input as service with data.inventory as store
	count(pods.beside) == 0 with input as {"metadata": {"namespace": "empty"}} with data.inventory as store
	count(pods.beside) == 0 with input as {"metadata": {}} with data.inventory as store
}

test_objects_of_a_kind if {
	store := build.inventory([build.deployment({}), object.union(build.deployment({}), {"metadata": {"namespace": "shop", "name": "api"}})])
	every namespace, names in {"shop": {"api"}, "bank": set()} {
		{name | some name, _ in pods.objects_beside("Deployment")} == names with input as {"metadata": {"namespace": namespace}} with data.inventory as store
	}
	{name | some name, _ in pods.objects_beside("Deployment")} == {"web"} with input as {"metadata": {}} with data.inventory as store
}

test_without_namespaces if {
	store := build.inventory([build.deployment({})])
	found := pods.beside with input as {"metadata": {"name": "web"}} with data.inventory as store
	found == {{"kind": "Deployment", "name": "web", "labels": {"app": "web"}, "annotations": {}, "spec": {}}}
}

test_labels_may_be_left_out if {
	store := build.inventory([{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "labels": null}, "spec": {}}])
	found := pods.beside with input as {"metadata": {}} with data.inventory as store
	{item.labels | some item in found} == {{}}
}

selected(selector, objects) := {item.kind | some item in objects; pods.selects(selector, item.kind, pods.pod_of(item.kind, item))}

labelled_pod(labels) := object.union(build.pod({}), {"metadata": {"labels": labels}})

test_selected_by_a_service if {
	both := [build.deployment({}), labelled_pod({"app": "web", "spilo-role": "replica"})]
	selected({"app": "web"}, both) == {"Deployment", "Pod"}
	selected({"app": "api"}, both) == set()
	selected({"spilo-role": "replica"}, both) == {"Pod"}
	selected({}, both) == set()
}

test_labels_that_pods_get_later if {
	both := [build.deployment({}), labelled_pod({"app": "web"})]
	every key in [
		"apps.kubernetes.io/pod-index",
		"batch.kubernetes.io/controller-uid",
		"batch.kubernetes.io/job-completion-index",
		"batch.kubernetes.io/job-name",
		"controller-uid",
		"job-name",
		"statefulset.kubernetes.io/pod-name",
		"cnpg.io/instanceRole",
		"role",
		"vault-active",
		"example.com/leader",
		"is-primary",
		"master",
	] {
		selected({"app": "web", key: "a"}, both) == {"Deployment"}
		selected({"app": "api", key: "a"}, both) == set()
		selected({key: "a"}, both) == set()
	}
	selected({"app": "web", "tier": "a"}, both) == set()
	selected({"app": "web", "role-of": "a"}, both) == set()
}

test_a_template_with_another_value_of_such_a_label if {
	role := object.union(build.deployment({}), {"spec": {"template": {"metadata": {"labels": {"app": "web", "role": "follower"}}}}})
	selected({"app": "web", "role": "follower"}, [role]) == {"Deployment"}
	selected({"app": "web", "role": "leader"}, [role]) == set()
}

owned_by(version, kind, patch) := object.union(
	object.union(build.pod({}), {"metadata": {"ownerReferences": [{"apiVersion": version, "kind": kind, "name": "main", "controller": true}]}}),
	patch,
)

creators(objects) := found if {
	found := {item.creator | some item in pods.running_in("shop")} with data.inventory as build.inventory(in_shop(objects))
}

test_what_runs if {
	every workload in workloads {
		creators([workload]) == {sprintf("%s/web", [workload.kind])}
	}
	every patch in [
		{"spec": {"replicas": 1}},
		{"spec": {"replicas": null}},
		{"spec": {"suspend": false}},
		{"metadata": {"ownerReferences": null}},
		{"status": {"phase": "Running"}},
	] {
		creators([object.union(build.deployment({}), patch)]) == {"Deployment/web"}
		creators([object.union(build.pod({}), patch)]) == {"Pod/web"}
	}
	job := build.templated("batch/v1", "Job", {})
	every conditions in [
		null,
		[{"type": "Complete", "status": "False"}],
		[{"type": "Suspended", "status": "True"}],
	] {
		creators([object.union(job, {"status": {"conditions": conditions}})]) == {"Job/web"}
	}
}

test_what_does_not_run if {
	job := build.templated("batch/v1", "Job", {})
	every idle in [
		object.union(build.deployment({}), {"spec": {"replicas": 0}}),
		object.union(build.cron_job({}), {"spec": {"suspend": true}}),
		object.union(job, {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}),
		object.union(job, {"status": {"conditions": [{"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Failed", "status": "True"}]}}),
		object.union(build.pod({}), {"status": {"phase": "Succeeded"}}),
		object.union(build.pod({}), {"status": {"phase": "Failed"}}),
	] {
		creators([idle]) == set()
	}
}

# Only kinds with such a status are finished by it.
test_status_of_other_kinds if {
	creators([object.union(build.deployment({}), {"status": {"phase": "Failed"}})]) == {"Deployment/web"}
	progress := {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
	creators([object.union(build.deployment({}), progress)]) == {"Deployment/web"}
}

test_creators if {
	every owner in [["apps/v1", "ReplicaSet"], ["v1", "ReplicationController"], ["batch/v1", "Job"], ["batch/v1", "CronJob"]] {
		creators([owned_by(owner[0], owner[1], {})]) == set()
	}
	every owner in [["apps.kruise.io/v1beta1", "StatefulSet"], ["db.example.com/v1", "Cluster"], ["v1", "Node"]] {
		creators([owned_by(owner[0], owner[1], {})]) == {sprintf("%s/main", [owner[1]])}
	}
	reference := {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "main"}
	every references in [[reference], [object.union(reference, {"controller": false})], [object.union(reference, {"controller": null})]] {
		creators([owned_by("v1", "Node", {"metadata": {"ownerReferences": references}})]) == {"Pod/web"}
	}
}

test_short_lived if {
	every selector in [
		{"matchLabels": {"acme.cert-manager.io/http01-solver": "true"}},
		{"matchLabels": {"app": "web", "workflows.argoproj.io/workflow": "a"}},
		{"matchLabels": {"actions.github.com/organization": "shop"}},
		{"matchLabels": {"job.runner.gitlab.com/pod": "a"}},
		{"matchLabels": {"sparkoperator.k8s.io/app-name": "a"}},
		{"matchExpressions": [{"key": "tekton.dev/pipelineRun", "operator": "Exists"}]},
		{"matchLabels": {"statefulset.kubernetes.io/pod-name": "db-0"}},
		{"matchLabels": null, "matchExpressions": [{"key": "job-name", "operator": "Exists"}]},
	] {
		pods.is_short_lived(selector)
	}
	every selector in [{}, null, {"matchLabels": {"app": "web"}}, {"matchExpressions": [{"key": "app", "operator": "Exists"}]}] {
		not pods.is_short_lived(selector)
	}
}
