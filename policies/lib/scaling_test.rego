package lib.scaling_test

import data.lib.build_test as build
import data.lib.scaling

workload(kind, spec) := object.union(
	build.templated("apps/v1", kind, build.spec),
	{"metadata": {"namespace": "shop"}, "spec": spec},
)

autoscaler(version, kind, name, limits) := {
	"apiVersion": version,
	"kind": "HorizontalPodAutoscaler",
	"metadata": {"name": "web", "namespace": "shop"},
	"spec": object.union({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": kind, "name": name}}, limits),
}

shop(objects) := {"namespace": {"shop": build.by_kind(objects)}}

least(item, objects) := found if {
	found := scaling.least_replicas(item) with input as item with data.inventory as shop(objects)
}

test_replicas_of_the_workload if {
	every replicas, expected in {0: 0, 1: 1, 3: 3, null: 1} {
		least(workload("Deployment", {"replicas": replicas}), []) == expected
	}
	least(workload("StatefulSet", {}), []) == 1
	not least(workload("Deployment", {"replicas": "3"}), [])
}

test_minimum_of_the_autoscaler if {
	every version in ["autoscaling/v1", "autoscaling/v2"] {
		every limits, expected in {{"minReplicas": 2}: 2, {"minReplicas": null}: 1, {}: 1} {
			item := workload("Deployment", {"replicas": 5})
			least(item, [autoscaler(version, "Deployment", "web", limits)]) == expected
		}
	}
}

test_autoscalers_of_others if {
	item := workload("Deployment", {"replicas": 5})
	every other in [
		autoscaler("autoscaling/v2", "StatefulSet", "web", {"minReplicas": 2}),
		autoscaler("autoscaling/v2", "Deployment", "api", {"minReplicas": 2}),
		autoscaler("autoscaling/v2", "Deployment", "web", {"minReplicas": "2"}),
	] {
		least(item, [other]) == 5
		not scaling.is_autoscaled(item) with input as item with data.inventory as shop([other])
	}
	elsewhere := {"namespace": {"bank": build.by_kind([autoscaler("autoscaling/v2", "Deployment", "web", {"minReplicas": 2})])}}
	scaling.least_replicas(item) == 5 with input as item with data.inventory as elsewhere
}

test_replicated if {
	every kind in ["Deployment", "StatefulSet"] {
		scaling.is_replicated with input as workload(kind, {"replicas": 2})
		not scaling.is_replicated with input as workload(kind, {"replicas": 1})
	}
	not scaling.is_replicated with input as workload("ReplicaSet", {"replicas": 2})
	not scaling.is_replicated with input as object.union(workload("Deployment", {"replicas": 2}), {"apiVersion": "example.com/v1"})
	least := shop([autoscaler("autoscaling/v2", "Deployment", "web", {"minReplicas": 1})])
	not scaling.is_replicated with input as workload("Deployment", {"replicas": 2}) with data.inventory as least
}
