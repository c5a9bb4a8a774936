package lib.pods_test

import data.lib.build_test as build
import data.lib.pods

inventory(objects) := {version: kinds |
	version := objects[_].apiVersion
	kinds := {kind: named |
		kind := objects[_].kind
		named := {item.metadata.name: item | some item in objects; item.kind == kind; item.apiVersion == version}
		count(named) > 0
	}
}

workloads := [workload | some workload in build.workloads({"containers": []}); workload.kind != "PodTemplate"]

test_each_kind_is_found if {
	expected := {[workload.kind, workload.metadata.name] | some workload in workloads}
	found := pods.of_namespace("shop") with data.inventory as {"namespace": {"shop": inventory(workloads)}}
	{[item.kind, item.name] | some item in found} == expected
	every item in found {
		item.spec == {"containers": []}
	}
}

test_only_the_own_namespace if {
	store := {"namespace": {"shop": inventory([build.pod({})]), "other": inventory([build.deployment({})])}}
	service := {"kind": "Service", "metadata": {"namespace": "shop"}}
	{item.kind | some item in pods.beside} == {"Pod"} with input as service with data.inventory as store
	count(pods.beside) == 0 with input as {"metadata": {"namespace": "empty"}} with data.inventory as store
	count(pods.beside) == 0 with input as {"metadata": {}} with data.inventory as store
}

test_without_namespaces if {
	store := {"cluster": inventory([build.deployment({})])}
	found := pods.beside with input as {"metadata": {"name": "web"}} with data.inventory as store
	found == {{"kind": "Deployment", "name": "web", "labels": {"app": "web"}, "spec": {}}}
}

test_labels_may_be_left_out if {
	store := {"cluster": inventory([{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "labels": null}, "spec": {}}])}
	found := pods.beside with input as {"metadata": {}} with data.inventory as store
	{item.labels | some item in found} == {{}}
}
