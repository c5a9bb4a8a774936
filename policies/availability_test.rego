package availability_test

import data.lib.build_test as build
import data.lib.scaling_test

# For the pages of the rules.
examples := {
	"deny_blocking_budget": {
		"violating": budget({"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}}),
		"correct": budget({"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}),
	},
}

budget(spec) := {
	"apiVersion": "policy/v1",
	"kind": "PodDisruptionBudget",
	"metadata": {"name": "web", "namespace": "shop"},
	"spec": spec,
}

least(value) := budget({"minAvailable": value, "selector": {"matchLabels": {"app": "web"}}})

deployment(replicas) := scaling_test.workload("Deployment", {"replicas": replicas})

shop(objects) := {"namespace": {"shop": build.by_kind(objects)}}

count_of(item, objects) := count(results) if {
	results := data.availability.deny_blocking_budget with input as item with data.inventory as shop(objects)
}

test_no_disruption_at_all if {
	every field, values in {"maxUnavailable": [0, "0%"], "minAvailable": ["100%"]} {
		every value in values {
			every objects in [[], [deployment(3)], [deployment(0)]] {
				results := data.availability.deny_blocking_budget with input as budget({field: value, "selector": {"matchLabels": {"app": "web"}}}) with data.inventory as shop(objects)
				results == {{
					"msg": sprintf("budget lets no pod be evicted: set maxUnavailable: 1 instead of %s: %v", [field, value]),
					"details": {"field": sprintf("spec.%s", [field]), "value": value},
				}}
			}
		}
	}
}

test_disruptions if {
	every spec in [{}, {"maxUnavailable": null, "minAvailable": null}, {"maxUnavailable": 1}, {"maxUnavailable": "1%"}, {"minAvailable": 0}, {"minAvailable": "0%"}, {"minAvailable": "high"}, {"minAvailable": "100"}, {"minAvailable": true}] {
		count_of(budget(object.union({"selector": {}}, spec)), [deployment(1)]) == 0
	}
}

test_minimum_of_all_replicas if {
	every value, replicas in {1: 1, 2: 2, 4: 3, "51%": 2, "67%": 3, "1%": 1, "99%": 50} {
		results := data.availability.deny_blocking_budget with input as least(value) with data.inventory as shop([deployment(replicas)])
		build.messages(results) == {sprintf("budget lets no pod of Deployment web be evicted: set maxUnavailable: 1 instead of minAvailable: %v", [value])}
		build.fields(results) == {"spec.minAvailable"}
	}
}

test_minimum_below_the_replicas if {
	every value, replicas in {1: 2, 2: 3, "50%": 2, "66%": 3, "98%": 50} {
		count_of(least(value), [deployment(replicas)]) == 0
	}
}

test_no_replicas if {
	count_of(least(1), []) == 0
	count_of(least(1), [deployment(0)]) == 0
	count_of(least("50%"), [deployment(0)]) == 0
}

test_every_kind_that_is_scaled if {
	every kind, version in {"Deployment": "apps/v1", "StatefulSet": "apps/v1", "ReplicaSet": "apps/v1", "ReplicationController": "v1"} {
		item := object.union(build.templated(version, kind, {}), {"spec": {"replicas": 2}})
		results := data.availability.deny_blocking_budget with input as least(2) with data.inventory as shop([item])
		build.messages(results) == {sprintf("budget lets no pod of %s web be evicted: set maxUnavailable: 1 instead of minAvailable: 2", [kind])}
	}
	count_of(least(1), [build.templated("apps/v1", "DaemonSet", {})]) == 0
}

# Their replicas are those of their owner.
test_owned_workloads if {
	owned := {"metadata": {"ownerReferences": [{"kind": "Rollout", "name": "web", "controller": true}]}}
	every kind, version in {"ReplicaSet": "apps/v1", "ReplicationController": "v1"} {
		count_of(least(1), [object.union(build.templated(version, kind, {}), owned)]) == 0
	}
	count_of(least(1), [object.union(deployment(1), owned)]) == 1
}

test_replicas_of_several_workloads if {
	stateful := scaling_test.workload("StatefulSet", {"replicas": 1})
	count_of(least(2), [deployment(2), stateful]) == 0
	results := data.availability.deny_blocking_budget with input as least(3) with data.inventory as shop([deployment(2), stateful])
	build.messages(results) == {"budget lets no pod of Deployment web, StatefulSet web be evicted: set maxUnavailable: 1 instead of minAvailable: 3"}
}

test_minimum_of_an_autoscaler if {
	autoscaler := scaling_test.autoscaler("autoscaling/v2", "Deployment", "web", {"minReplicas": 2})
	results := data.availability.deny_blocking_budget with input as least(2) with data.inventory as shop([deployment(5), autoscaler])
	build.messages(results) == {"budget lets no pod of Deployment web at its HPA's minimum be evicted: set maxUnavailable: 1 instead of minAvailable: 2"}
	count_of(least(1), [deployment(1), autoscaler]) == 0
}

test_pods_that_are_not_selected if {
	every selector in [null, {"matchLabels": {"app": "api"}}] {
		count_of(budget({"minAvailable": 1, "selector": selector}), [deployment(1)]) == 0
	}
	count_of(budget({"minAvailable": 1, "selector": {}}), [deployment(1)]) == 1
	bank := {"namespace": {"bank": build.by_kind([deployment(1)])}}
	every store in [bank, {"cluster": build.by_kind([deployment(1)])}] {
		results := data.availability.deny_blocking_budget with input as least(1) with data.inventory as store
		count(results) == 0
	}
}

test_manifests_without_namespace if {
	store := {"cluster": build.by_kind([build.deployment({})])}
	anywhere := {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": least(1).spec}
	results := data.availability.deny_blocking_budget with input as anywhere with data.inventory as store
	count(results) == 1
}

test_other_objects if {
	blocking := budget({"maxUnavailable": 0})
	every change in [
		{"kind": "PodBudget"},
		{"apiVersion": "example.com/v1"},
		{"metadata": {"ownerReferences": [{"kind": "Cluster", "name": "db", "controller": true}]}},
	] {
		count_of(object.union(blocking, change), []) == 0
	}
}
