package probes_test

import data.lib.build_test as build

bare := {"containers": [{"name": "web"}, {"name": "log", "readinessProbe": null, "livenessProbe": null}]}

# For the pages of the rules.
examples := {
	"warn_missing_readiness": {
		"violating": build.small({}, {"ports": [{"containerPort": 8080}]}),
		"correct": build.small({}, {"ports": [{"containerPort": 8080}], "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}}}),
	},
	"warn_missing_liveness": {
		"violating": build.small({}, {"ports": [{"containerPort": 8080}]}),
		"correct": build.small({}, {"ports": [{"containerPort": 8080}], "livenessProbe": {"httpGet": {"path": "/live", "port": 8080}}}),
	},
}

test_long_running if {
	every workload in [
		build.pod(bare),
		build.deployment(bare),
		build.templated("apps/v1", "StatefulSet", bare),
		build.templated("apps/v1", "DaemonSet", bare),
		build.templated("apps/v1", "ReplicaSet", bare),
		build.templated("v1", "ReplicationController", bare),
	] {
		count(data.probes.warn_missing_readiness) == 2 with input as workload
		count(data.probes.warn_missing_liveness) == 2 with input as workload
	}
}

test_what_ends if {
	every workload in [
		build.cron_job(bare),
		build.templated("batch/v1", "Job", bare),
		build.pod_template(bare),
		build.pod(object.union(bare, {"restartPolicy": "Never"})),
		build.pod(object.union(bare, {"restartPolicy": "OnFailure"})),
	] {
		count(data.probes.warn_missing_readiness) == 0 with input as workload
		count(data.probes.warn_missing_liveness) == 0 with input as workload
	}
}

test_results if {
	unready := data.probes.warn_missing_readiness with input as examples.warn_missing_readiness.violating
	unready == {{
		"msg": "container \"web\" has no readiness probe: set readinessProbe",
		"details": {"container": "web", "field": "spec.containers[0].readinessProbe", "value": null},
		"severity": "info",
	}}
	unwatched := data.probes.warn_missing_liveness with input as examples.warn_missing_liveness.violating
	unwatched == {{
		"msg": "container \"web\" has no liveness probe: set livenessProbe",
		"details": {"container": "web", "field": "spec.containers[0].livenessProbe", "value": null},
	}}
}

test_probes if {
	ready := {"containers": [{"name": "web", "readinessProbe": {"tcpSocket": {"port": 80}}}]}
	count(data.probes.warn_missing_readiness) == 0 with input as build.deployment(ready)
	count(data.probes.warn_missing_liveness) == 1 with input as build.deployment(ready)
	alive := {"containers": [{"name": "web", "livenessProbe": {"exec": {"command": ["true"]}}}]}
	count(data.probes.warn_missing_readiness) == 1 with input as build.deployment(alive)
	count(data.probes.warn_missing_liveness) == 0 with input as build.deployment(alive)
}

severities(results) := {object.get(result, "severity", "as the rule's") | some result in results}

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
			results := data.probes.warn_missing_readiness with input as workload with data.inventory as services(specs)
			count(results) == 2
			severities(results) == {"as the rule's"}
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
			results := data.probes.warn_missing_readiness with input as workload with data.inventory as services(specs)
			count(results) == 2
			severities(results) == {"info"}
		}
	}
	selecting := services({"web": {"selector": {"app": "web"}}})
	every namespace in ["bank", null] {
		every workload in labelled(namespace, {"app": "web"}) {
			results := data.probes.warn_missing_readiness with input as workload with data.inventory as selecting
			severities(results) == {"info"}
		}
	}
	every labels in [{"app": "other"}, {"app": null}, null] {
		every workload in labelled("shop", labels) {
			results := data.probes.warn_missing_readiness with input as workload with data.inventory as selecting
			severities(results) == {"info"}
		}
	}
}

test_service_and_manifests_without_namespace if {
	inventory := {"cluster": {"v1": {"Service": {"web": {"spec": {"selector": {"app": "web"}}}}}}}
	results := data.probes.warn_missing_readiness with input as build.deployment(bare) with data.inventory as inventory
	severities(results) == {"as the rule's"}
}

test_helpers_are_left_out if {
	helpers := {
		"initContainers": [{"name": "prepare"}, {"name": "proxy", "restartPolicy": "Always"}],
		"ephemeralContainers": [{"name": "look"}],
	}
	count(data.probes.warn_missing_readiness) == 0 with input as build.pod(helpers)
	count(data.probes.warn_missing_liveness) == 0 with input as build.pod(helpers)
}
