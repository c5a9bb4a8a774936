package references.selectors_test

import data.lib.build_test as build

# For the pages of the rules. Both manifests are checked beside these objects.
examples := {
	"deny_overlapping_workloads": {
		"beside": [workload("Deployment", "web-canary", {"app": "web"}, {"app": "web"})],
		"violating": workload("Deployment", "web", {"app": "web"}, {"app": "web"}),
		"correct": workload("Deployment", "web", {"app": "web", "track": "stable"}, {"app": "web", "track": "stable"}),
	},
	"deny_overlapping_budgets": {
		"beside": [budget("web", {"matchLabels": {"app": "web"}}), object.union(build.deployment({}), {"metadata": {"namespace": "shop"}})],
		"violating": budget("all", {}),
		"correct": budget("all", {"matchLabels": {"app": "api"}}),
	},
}

test_examples if {
	every rule, example in examples {
		store := build.inventory(example.beside)
		count(data.references.selectors[rule]) == 1 with input as example.violating with data.inventory as store
		count(data.references.selectors[rule]) == 0 with input as example.correct with data.inventory as store
	}
}

workload(kind, name, selector, labels) := {
	"apiVersion": "apps/v1",
	"kind": kind,
	"metadata": {"name": name, "namespace": "shop"},
	"spec": {"selector": {"matchLabels": selector}, "template": {"metadata": {"labels": labels}}},
}

selecting_web(kind, name) := workload(kind, name, {"app": "web"}, {"app": "web"})

budget(name, selector) := {
	"apiVersion": "policy/v1",
	"kind": "PodDisruptionBudget",
	"metadata": {"name": name, "namespace": "shop"},
	"spec": {"maxUnavailable": 1, "selector": selector},
}

# The names of the objects with a result among these.
reported(objects) := {item.metadata.name |
	store := build.inventory(objects)
	some item in objects
	count(data.references.selectors.deny_overlapping_workloads) > 0 with input as item with data.inventory as store
}

test_equal_selectors if {
	reported([selecting_web("Deployment", "a"), selecting_web("Deployment", "b")]) == {"a"}
	reported([selecting_web("Deployment", "a"), selecting_web("Deployment", "b"), selecting_web("Deployment", "c")]) == {"a", "b"}
	reported([selecting_web("StatefulSet", "a"), selecting_web("Deployment", "b")]) == {"b"}
	reported([selecting_web("StatefulSet", "a"), selecting_web("DaemonSet", "b")]) == {"b"}
	reported([selecting_web("StatefulSet", "a"), selecting_web("StatefulSet", "b")]) == {"a"}

	# Of the same name.
	results := data.references.selectors.deny_overlapping_workloads with input as selecting_web("DaemonSet", "a")
		with data.inventory as build.inventory([selecting_web("DaemonSet", "a"), selecting_web("Deployment", "a")])
	results == {{
		"msg": "selector also selects the pods of Deployment \"a\": give each workload a label of its own",
		"details": {"field": "spec.selector", "value": {"matchLabels": {"app": "web"}}, "other": "Deployment/a"},
	}}
}

# The wider selector is the one to change.
test_wider_selector if {
	narrow := workload("Deployment", "a", {"app": "web", "track": "canary"}, {"app": "web", "track": "canary"})
	reported([narrow, selecting_web("Deployment", "b")]) == {"b"}
	reported([selecting_web("Deployment", "b"), object.union(narrow, {"metadata": {"name": "z"}})]) == {"b"}
}

test_selectors_that_do_not_overlap if {
	reported([selecting_web("Deployment", "a"), workload("Deployment", "b", {"app": "api"}, {"app": "api"})]) == set()
	reported([selecting_web("Deployment", "a")]) == set()
	reported([selecting_web("Deployment", "a"), object.union(selecting_web("Deployment", "b"), {"metadata": {"namespace": "bank"}})]) == set()
	reported([selecting_web("Deployment", "b"), object.union(selecting_web("Deployment", "a"), {"apiVersion": "example.com/v1"})]) == set()
	reported([selecting_web("Deployment", "b"), selecting_web("ControllerRevision", "a")]) == set()
	unset := {"spec": {"selector": null, "template": {"metadata": null}}}
	reported([object.union(selecting_web("Deployment", "a"), unset), object.union(selecting_web("Deployment", "b"), unset)]) == set()
}

owned(kind, name, controller) := object.union(
	selecting_web(kind, name),
	{"metadata": {"ownerReferences": [{"kind": "Web", "name": "web", "controller": controller}]}},
)

# Those of a Deployment are its own; they are many, so others are compared with other kinds only.
test_replica_sets if {
	reported([selecting_web("Deployment", "a"), owned("ReplicaSet", "b", true)]) == set()
	reported([selecting_web("Deployment", "a"), owned("ReplicaSet", "b", false)]) == {"b"}
	several := {"metadata": {"ownerReferences": [
		{"kind": "Plan", "name": "web"},
		{"kind": "Web", "name": "web", "controller": true},
	]}}
	reported([selecting_web("Deployment", "a"), object.union(selecting_web("ReplicaSet", "b"), several)]) == set()
	reported([selecting_web("Deployment", "a"), selecting_web("ReplicaSet", "b")]) == {"b"}
	reported([selecting_web("StatefulSet", "a"), selecting_web("ReplicaSet", "b")]) == {"b"}
	reported([selecting_web("DaemonSet", "a"), selecting_web("ReplicaSet", "b")]) == {"b"}
	reported([selecting_web("ReplicaSet", "a"), selecting_web("ReplicaSet", "b")]) == set()
}

test_workloads_of_an_operator if {
	reported([owned("Deployment", "a", true), owned("Deployment", "b", true)]) == {"a"}
}

budgets(objects) := {item.metadata.name |
	store := build.inventory(array.concat(objects, [
		workload("StatefulSet", "api", {"app": "api"}, {"app": "api"}),
		object.union(build.deployment({}), {"metadata": {"namespace": "shop"}}),
	]))
	some item in objects
	count(data.references.selectors.deny_overlapping_budgets) > 0 with input as item with data.inventory as store
}

web := {"matchLabels": {"app": "web"}}

test_two_budgets if {
	budgets([budget("a", web), budget("b", web)]) == {"a"}
	budgets([budget("b", web), budget("a", {})]) == {"a"}
	budgets([budget("a", {}), budget("b", {"matchLabels": {"app": "api"}})]) == {"a"}
	results := data.references.selectors.deny_overlapping_budgets with input as budget("a", {})
		with data.inventory as build.inventory([budget("b", web), object.union(build.deployment({}), {"metadata": {"namespace": "shop"}})])
	results == {{
		"msg": "PodDisruptionBudget \"b\" selects some of the same pods: change one of the selectors",
		"details": {"field": "spec.selector", "value": {}, "other": "b"},
	}}
}

test_budgets_that_do_not_overlap if {
	budgets([budget("a", web), budget("b", {"matchLabels": {"app": "api"}})]) == set()
	budgets([budget("a", {"matchLabels": {"app": "api"}}), budget("b", web)]) == set()
	budgets([budget("a", web)]) == set()
	budgets([budget("a", web), budget("b", null)]) == set()
	budgets([budget("a", null), budget("b", web)]) == set()
	budgets([budget("a", web), object.union(budget("b", web), {"metadata": {"namespace": "bank"}})]) == set()

	# Selected by both, if there were such a pod.
	none := {"matchLabels": {"app": "db"}}
	budgets([budget("a", none), budget("b", none)]) == set()
	budgets([budget("a", web), object.union(budget("b", web), {"apiVersion": "example.com/v1"})]) == set()
	budgets([object.union(budget("a", web), {"apiVersion": "example.com/v1"}), budget("b", web)]) == set()
	budgets([object.union(budget("a", web), {"kind": "Budget"}), budget("b", web)]) == set()
}
