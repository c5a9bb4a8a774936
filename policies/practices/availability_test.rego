package practices.availability_test

import data.lib.build_test as build
import data.lib.scaling_test

import data.practices.availability

# For the pages of the rules. Objects in `beside` are in the namespace, too.
examples := {
	"warn_missing_budget": {
		"violating": small({"replicas": 2}),
		"correct": small({"replicas": 2}),
		"beside": {"violating": [], "correct": [budget]},
	},
	"warn_unspread_replicas": {
		"violating": small({"replicas": 2}),
		"correct": small({"replicas": 2, "template": {"spec": {"topologySpreadConstraints": [constraint]}}}),
		"beside": {"violating": [], "correct": []},
	},
	"warn_single_replica": {
		"violating": small({"replicas": 1}),
		"correct": small({"replicas": 2}),
		"beside": {"violating": [service], "correct": [service]},
	},
	"warn_fixed_autoscaler": {
		"violating": autoscaler("autoscaling/v2", {"minReplicas": 3, "maxReplicas": 3}),
		"correct": autoscaler("autoscaling/v2", {"minReplicas": 3, "maxReplicas": 6}),
		"beside": {"violating": [], "correct": []},
	},
	"warn_protected_broken_pods": {
		"violating": budget,
		"correct": object.union(budget, {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}),
		"beside": {"violating": [], "correct": []},
	},
	"warn_recreate": {
		"violating": small({"replicas": 2, "strategy": {"type": "Recreate"}}),
		"correct": small({"replicas": 2, "strategy": {"type": "RollingUpdate"}}),
		"beside": {"violating": [service], "correct": [service]},
	},
}

# A Deployment as the examples have it.
small(spec) := {
	"apiVersion": "apps/v1",
	"kind": "Deployment",
	"metadata": {"name": "web"},
	"spec": object.union(
		{
			"selector": {"matchLabels": {"app": "web"}},
			"template": {"metadata": {"labels": {"app": "web"}}, "spec": build.small({}, {}).spec},
		},
		spec,
	),
}

service := {
	"apiVersion": "v1",
	"kind": "Service",
	"metadata": {"name": "web"},
	"spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
}

budget := {
	"apiVersion": "policy/v1",
	"kind": "PodDisruptionBudget",
	"metadata": {"name": "web"},
	"spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
}

constraint := {
	"maxSkew": 1,
	"topologyKey": "kubernetes.io/hostname",
	"whenUnsatisfiable": "ScheduleAnyway",
	"labelSelector": {"matchLabels": {"app": "web"}},
}

autoscaler(version, limits) := {
	"apiVersion": version,
	"kind": "HorizontalPodAutoscaler",
	"metadata": {"name": "web"},
	"spec": object.union({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}, limits),
}

claim(modes) := {
	"apiVersion": "v1",
	"kind": "PersistentVolumeClaim",
	"metadata": {"name": "data"},
	"spec": {"accessModes": modes},
}

claiming := {"template": {"spec": {"volumes": [{"name": "tmp", "emptyDir": {}}, {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}}}

host_port := {"template": {"spec": {"containers": [{"name": "web", "ports": [{"containerPort": 80}, {"containerPort": 443, "hostPort": 443}]}]}}}

# How many results a rule has for manifests without a namespace.
results_of(rule, item, objects) := count(results) if {
	results := availability[rule] with input as item with data.inventory as {"cluster": build.by_kind(objects)}
}

test_examples if {
	every rule, example in examples {
		results_of(rule, example.violating, example.beside.violating) == 1
		results_of(rule, example.correct, example.beside.correct) == 0
	}
}

test_missing_budget if {
	every kind in ["Deployment", "StatefulSet"] {
		results := availability.warn_missing_budget with input as object.union(small({"replicas": 2}), {"kind": kind})
		results == {{
			"msg": "all replicas may be evicted at once: add a PodDisruptionBudget that selects the labels of the pods",
			"details": {"field": "spec.template.metadata.labels", "value": {"app": "web"}},
		}}
	}
	other := object.union(budget, {"metadata": {"name": "api"}, "spec": {"selector": {"matchLabels": {"app": "api"}}}})
	results_of("warn_missing_budget", small({"replicas": 2}), [other]) == 1
	results_of("warn_missing_budget", small({"replicas": 2}), [other, budget]) == 0
	results_of("warn_missing_budget", small({"replicas": 2}), [object.union(budget, {"spec": {"selector": null}})]) == 1
	results_of("warn_missing_budget", small({"replicas": 2, "template": {"metadata": {"labels": null}}}), [budget]) == 1
}

test_budget_of_another_namespace if {
	item := object.union(small({"replicas": 2}), {"metadata": {"namespace": "shop"}})
	results_of("warn_missing_budget", item, [budget]) == 1
	shop := {"namespace": {"shop": build.by_kind([budget])}}
	count(availability.warn_missing_budget) == 0 with input as item with data.inventory as shop
}

test_budget_is_not_needed if {
	every item in [
		small({"replicas": 1}),
		small({}),
		small({"replicas": 0}),
		object.union(small({"replicas": 2}), {"kind": "ReplicaSet"}),
		object.union(small({"replicas": 2}), {"apiVersion": "example.com/v1"}),
	] {
		results_of("warn_missing_budget", item, []) == 0
	}
	results_of("warn_missing_budget", small({"replicas": 2}), [autoscaler("autoscaling/v2", {"maxReplicas": 3})]) == 0
	results_of("warn_missing_budget", small({}), [autoscaler("autoscaling/v2", {"minReplicas": 2})]) == 1
}

test_unspread_replicas if {
	every spec in [
		{},
		{"topologySpreadConstraints": null},
		{"topologySpreadConstraints": []},
		{"affinity": null},
		{"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}}},
		{"affinity": {"podAntiAffinity": {}}},
		{"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}}},
	] {
		every kind in ["Deployment", "StatefulSet"] {
			item := object.union(small({"replicas": 2, "template": {"spec": spec}}), {"kind": kind})
			results := availability.warn_unspread_replicas with input as item
			results == {{
				"msg": "all replicas may run on one node: set topologySpreadConstraints or affinity.podAntiAffinity",
				"details": {"field": "spec.template.spec.topologySpreadConstraints", "value": null},
			}}
		}
	}
}

test_spread_replicas if {
	every spec in [
		{"topologySpreadConstraints": [constraint]},
		{"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname"}]}}},
		{"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}},
	] {
		results_of("warn_unspread_replicas", small({"replicas": 2, "template": {"spec": spec}}), []) == 0
	}
	results_of("warn_unspread_replicas", small(object.union({"replicas": 2}, host_port)), []) == 0
	second := {"template": {"spec": {"containers": array.concat([{"name": "proxy"}], host_port.template.spec.containers)}}}
	results_of("warn_unspread_replicas", small(object.union({"replicas": 2}, second)), []) == 0
	results_of("warn_unspread_replicas", small({"replicas": 2, "template": {"spec": {"containers": [{"name": "web", "ports": [{"hostPort": 0}, {"hostPort": null}]}]}}}), []) == 1
	results_of("warn_unspread_replicas", small({"replicas": 2, "template": {"spec": {"containers": [{"name": "web", "ports": [{"hostPort": 1}]}]}}}), []) == 0
	results_of("warn_unspread_replicas", small({"replicas": 1}), []) == 0
}

test_single_replica if {
	every spec in [{"replicas": 1}, {}, {"replicas": null}, {"replicas": 1, "strategy": {"type": "RollingUpdate"}}] {
		results := availability.warn_single_replica with input as small(spec) with data.inventory as {"cluster": build.by_kind([service])}
		results == {{
			"msg": "the Service has only one pod, which stops when its node is drained: set spec.replicas to 2 or more",
			"details": {"field": "spec.replicas", "value": 1},
		}}
	}
}

test_single_replica_on_purpose if {
	every item in [
		small({"replicas": 0}),
		small({"replicas": 2}),
		small({"strategy": {"type": "Recreate"}}),
		small(claiming),
		object.union(small({}), {"kind": "StatefulSet"}),
		object.union(small({}), {"apiVersion": "apps/v1beta1"}),
		object.union(small({}), {"apiVersion": "example.com/v1"}),
	] {
		results_of("warn_single_replica", item, [service]) == 0
	}
	results_of("warn_single_replica", small({}), []) == 0
	results_of("warn_single_replica", small({}), [object.union(service, {"spec": {"selector": {"app": "api"}}})]) == 0
	results_of("warn_single_replica", small({}), [service, autoscaler("autoscaling/v2", {"minReplicas": 1})]) == 0
}

in_shop(item) := object.union(item, {"metadata": {"namespace": "shop"}})

test_single_replicas_behind_one_service if {
	canary := object.union(small({}), {"metadata": {"name": "canary"}})
	results_of("warn_single_replica", small({}), [service, small({}), canary]) == 0
	results_of("warn_single_replica", small({}), [service, small({})]) == 1
	results_of("warn_single_replica", small({}), [service, canary, object.union(service, {"metadata": {"name": "version"}, "spec": {"selector": {"app": "web"}}})]) == 0

	# In a namespace, only the workloads there count.
	every want, objects in {1: [service], 0: [service, canary]} {
		store := build.inventory([in_shop(object) | some object in objects])
		count(availability.warn_single_replica) == want with input as in_shop(small({})) with data.inventory as store
	}

	# A Service for other pods does not matter.
	api := object.union(service, {"metadata": {"name": "api"}, "spec": {"selector": {"app": "api"}}})
	results_of("warn_single_replica", small({}), [service, api]) == 1

	# Workloads that run no pods, and pods that the Service does not select, do not count.
	stopped := object.union(canary, {"spec": {"replicas": 0}})
	other := object.union(canary, {"metadata": {"name": "api"}, "spec": {"template": {"metadata": {"labels": {"app": "api"}}}}})
	results_of("warn_single_replica", small({}), [service, stopped, other]) == 1
}

test_fixed_autoscaler if {
	every version in ["autoscaling/v1", "autoscaling/v2", "autoscaling/v2beta2"] {
		every limits, replicas in {
			{"minReplicas": 3, "maxReplicas": 3}: 3,
			{"maxReplicas": 1}: 1,
			{"minReplicas": null, "maxReplicas": 1}: 1,
		} {
			results := availability.warn_fixed_autoscaler with input as autoscaler(version, limits)
			results == {{
				"msg": sprintf("autoscaler always sets %v replicas: raise spec.maxReplicas, or remove the autoscaler", [replicas]),
				"details": {"field": "spec.maxReplicas", "value": replicas},
			}}
		}
	}
	every limits in [{}, {"minReplicas": 1, "maxReplicas": 3}, {"maxReplicas": 3}, {"minReplicas": "3", "maxReplicas": "3"}, {"minReplicas": 3, "maxReplicas": null}] {
		results_of("warn_fixed_autoscaler", autoscaler("autoscaling/v2", limits), []) == 0
	}
	fixed := autoscaler("autoscaling/v2", {"minReplicas": 3, "maxReplicas": 3})
	every change in [{"kind": "Scaler"}, {"apiVersion": "autoscaling.example.com/v1"}] {
		results_of("warn_fixed_autoscaler", object.union(fixed, change), []) == 0
	}
}

test_protected_broken_pods if {
	every policy in [null, ""] {
		results := availability.warn_protected_broken_pods with input as object.union(budget, {"spec": {"unhealthyPodEvictionPolicy": policy}})
		results == {{
			"msg": "budget blocks the eviction of pods that are not ready: set unhealthyPodEvictionPolicy: AlwaysAllow",
			"details": {"field": "spec.unhealthyPodEvictionPolicy", "value": null},
		}}
	}
	every change in [
		{"spec": {"unhealthyPodEvictionPolicy": "IfHealthyBudget"}},
		{"kind": "PodBudget"},
		{"apiVersion": "example.com/v1"},
		{"metadata": {"ownerReferences": [{"kind": "Cluster", "name": "db"}]}},
	] {
		results_of("warn_protected_broken_pods", object.union(budget, change), []) == 0
	}
}

recreated(spec) := small(object.union({"replicas": 2, "strategy": {"type": "Recreate"}}, spec))

test_recreate if {
	results := availability.warn_recreate with input as recreated({}) with data.inventory as {"cluster": build.by_kind([service])}
	results == {{
		"msg": "each rollout stops all pods of the Service at once: set spec.strategy.type: RollingUpdate",
		"details": {"field": "spec.strategy.type", "value": "Recreate"},
	}}
	every mode in ["ReadWriteMany", "ReadOnlyMany"] {
		results_of("warn_recreate", recreated(claiming), [service, claim(["ReadWriteOnce", mode])]) == 1
	}
}

test_recreate_on_purpose if {
	every item in [
		recreated({"strategy": null}),
		recreated({"replicas": 1}),
		recreated({"replicas": 0}),
		recreated(host_port),
		recreated(claiming),
		object.union(recreated({}), {"kind": "StatefulSet"}),
		object.union(recreated({}), {"apiVersion": "example.com/v1"}),
	] {
		results_of("warn_recreate", item, [service]) == 0
	}
	every mode in ["ReadWriteOnce", "ReadWriteOncePod"] {
		results_of("warn_recreate", recreated(claiming), [service, claim([mode])]) == 0
	}
	results_of("warn_recreate", recreated({}), []) == 0
	results_of("warn_recreate", recreated({}), [object.union(service, {"spec": {"type": "ExternalName"}})]) == 0
}

test_replicas_by_an_autoscaler if {
	store := {"namespace": {"shop": build.by_kind([scaling_test.autoscaler("autoscaling/v2", "Deployment", "web", {"minReplicas": 2})])}}
	item := object.union(small({}), {"metadata": {"namespace": "shop"}})
	count(availability.warn_unspread_replicas) == 1 with input as item with data.inventory as store
}
