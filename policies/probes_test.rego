package probes_test

import data.lib.build_test as build

bare := {"containers": [{"name": "web"}, {"name": "log", "readinessProbe": null}]}

# For the pages of the rules. Objects in `beside` are in the namespace, too.
examples := {"warn_missing_readiness": {
	"violating": labelled_pod({}),
	"correct": labelled_pod({"readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}}}),
	"beside": {"violating": [service], "correct": [service]},
}}

labelled_pod(probe) := object.union(
	build.small({}, object.union({"ports": [{"containerPort": 8080}]}, probe)),
	{"metadata": {"labels": {"app": "web"}}},
)

service := {
	"apiVersion": "v1",
	"kind": "Service",
	"metadata": {"name": "web"},
	"spec": {"selector": {"app": "web"}, "ports": [{"port": 8080}]},
}

results_of(workload, inventory) := results if {
	results := data.probes.warn_missing_readiness with input as workload with data.inventory as inventory
}

test_result if {
	results := results_of(examples.warn_missing_readiness.violating, {"cluster": build.by_kind([service])})
	results == {{
		"msg": "container \"web\" has no readiness probe: set readinessProbe",
		"details": {"container": "web", "field": "spec.containers[0].readinessProbe", "value": null},
	}}
	count(results_of(examples.warn_missing_readiness.correct, {"cluster": build.by_kind([service])})) == 0
}

# Long-running workloads in a namespace, with these labels of the pod.
labelled(namespace, labels) := array.concat(
	[object.union(build.pod(bare), {"metadata": {"namespace": namespace, "labels": labels}})],
	[object.union(build.templated(version, kind, bare), {
		"metadata": {"namespace": namespace},
		"spec": {"template": {"metadata": {"labels": labels}}},
	}) |
		some kind, version in {
			"DaemonSet": "apps/v1",
			"Deployment": "apps/v1",
			"ReplicaSet": "apps/v1",
			"ReplicationController": "v1",
			"StatefulSet": "apps/v1",
		}
	],
)

services(specs) := {"namespace": {"shop": {"v1": {"Service": {name: {"spec": spec} | some name, spec in specs}}}}}

test_behind_a_service if {
	every specs in [
		{"web": {"selector": {"app": "web"}}},
		{"web": {"type": "LoadBalancer", "selector": {"app": "web", "tier": "front"}}},
		{"other": {"selector": {"app": "other"}}, "web": {"selector": {"tier": "front"}}},
	] {
		every workload in labelled("shop", {"app": "web", "tier": "front"}) {
			count(results_of(workload, services(specs))) == 2
		}
	}
}

test_behind_no_service if {
	every specs in [
		{},
		{"web": {"selector": {"app": "other"}}},
		{"web": {"selector": {"app": "web", "tier": "back"}}},
		{"web": {"selector": {"app": "web", "zone": "a"}}},
		{"web": {"selector": {}}},
		{"web": {"selector": null}},
		{"web": {}},
		{"web": {"type": "ExternalName", "selector": {"app": "web"}}},
	] {
		every workload in labelled("shop", {"app": "web", "tier": "front"}) {
			count(results_of(workload, services(specs))) == 0
		}
	}
	selecting := services({"web": {"selector": {"app": "web"}}})
	every namespace in ["bank", null] {
		every workload in labelled(namespace, {"app": "web"}) {
			count(results_of(workload, selecting)) == 0
		}
	}
	every labels in [{"app": "other"}, {"app": null}, null] {
		every workload in labelled("shop", labels) {
			count(results_of(workload, selecting)) == 0
		}
	}
}

# A job that a Service selects ends by itself.
test_what_ends if {
	labels := {"metadata": {"labels": {"app": "web"}}}
	every workload in [
		build.cron_job(bare),
		build.templated("batch/v1", "Job", bare),
		build.pod_template(bare),
		build.pod(object.union(bare, {"restartPolicy": "Never"})),
		build.pod(object.union(bare, {"restartPolicy": "OnFailure"})),
	] {
		every placed in [
			object.union(workload, labels),
			object.union(workload, {"template": labels}),
			object.union(workload, {"spec": {"template": labels}}),
			object.union(workload, {"spec": {"jobTemplate": {"spec": {"template": labels}}}}),
		] {
			count(results_of(placed, {"cluster": build.by_kind([service])})) == 0
		}
	}
}

test_helpers_are_left_out if {
	helpers := build.pod({
		"initContainers": [{"name": "prepare"}, {"name": "proxy", "restartPolicy": "Always"}],
		"ephemeralContainers": [{"name": "look"}],
	})
	labelled_helpers := object.union(helpers, {"metadata": {"labels": {"app": "web"}}})
	count(results_of(labelled_helpers, {"cluster": build.by_kind([service])})) == 0
}
