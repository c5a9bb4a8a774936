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
