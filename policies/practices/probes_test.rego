package practices.probes_test

import data.lib.build_test as build

# For the pages of the rules.
examples := {
	"warn_missing_liveness": {
		"violating": build.small({}, {"ports": [{"containerPort": 8080}]}),
		"correct": build.small({}, {"ports": [{"containerPort": 8080}], "livenessProbe": {"httpGet": {"path": "/live", "port": 8080}}}),
	},
	"warn_identical_probes": {
		"violating": build.small({}, {"livenessProbe": http({}), "readinessProbe": http({})}),
		"correct": build.small({}, {"livenessProbe": http({"failureThreshold": 6}), "readinessProbe": http({})}),
	},
}

http(timing) := object.union({"httpGet": {"path": "/ready", "port": 8080}}, timing)

count_of(liveness, readiness) := count(results) if {
	results := data.practices.probes.warn_identical_probes with input as build.small({}, {"livenessProbe": liveness, "readinessProbe": readiness})
}

test_every_workload if {
	spec := {
		"containers": [{"name": "web", "livenessProbe": http({}), "readinessProbe": http({})}],
		"initContainers": [{"name": "proxy", "restartPolicy": "Always", "livenessProbe": http({}), "readinessProbe": http({})}],
	}
	every workload in build.workloads(spec) {
		count(data.practices.probes.warn_identical_probes) == 2 with input as workload
	}
}

test_same_request if {
	every probe in [http({}), {"tcpSocket": {"port": 80}}, {"exec": {"command": ["true"]}}, {"grpc": {"port": 80}}] {
		count_of(probe, probe) == 1
		count_of(object.union(probe, {"initialDelaySeconds": 30}), probe) == 1
	}
}

test_fields_of_other_requests_may_be_null if {
	count_of({"tcpSocket": {"port": 80}, "httpGet": null}, {"tcpSocket": {"port": 80}}) == 1
	count_of({"httpGet": null}, {"httpGet": null}) == 0
}

test_other_request if {
	count_of(http({}), {"httpGet": {"path": "/live", "port": 8080}}) == 0
	count_of(http({}), {"tcpSocket": {"port": 8080}}) == 0
	count_of(http({"httpGet": {"port": 8081}}), http({})) == 0
}

test_restart_not_before_traffic_stops if {
	count_of(http({"failureThreshold": 4}), http({})) == 0
	count_of(http({"periodSeconds": 20}), http({})) == 0
	count_of(http({"failureThreshold": 3, "periodSeconds": 10}), http({"failureThreshold": null, "periodSeconds": null})) == 1
	count_of(http({}), http({"failureThreshold": 3, "periodSeconds": 10})) == 1
	count_of(http({"failureThreshold": 6, "periodSeconds": 5}), http({})) == 1
	count_of(http({"failureThreshold": 2}), http({})) == 1
	count_of(http({}), http({"failureThreshold": 2})) == 0
	count_of(http({}), http({"periodSeconds": 5})) == 0
}

test_one_probe if {
	count_of(null, http({})) == 0
	count_of(http({}), null) == 0
	count_of(null, null) == 0
}

test_result if {
	results := data.practices.probes.warn_identical_probes with input as build.pod_with_container({"livenessProbe": http({}), "readinessProbe": http({})})
	results == {{
		"msg": "container \"web\" has the same liveness and readiness probe: raise livenessProbe.failureThreshold",
		"details": {"container": "web", "field": "spec.containers[0].livenessProbe", "value": http({})},
	}}
}

bare := {"containers": [{"name": "web"}, {"name": "log", "livenessProbe": null}]}

test_no_liveness_probe if {
	every workload in [
		build.pod(bare),
		build.deployment(bare),
		build.templated("apps/v1", "StatefulSet", bare),
		build.templated("apps/v1", "DaemonSet", bare),
		build.templated("apps/v1", "ReplicaSet", bare),
		build.templated("v1", "ReplicationController", bare),
	] {
		count(data.practices.probes.warn_missing_liveness) == 2 with input as workload
	}
	missing := data.practices.probes.warn_missing_liveness with input as examples.warn_missing_liveness.violating
	missing == {{
		"msg": "container \"web\" has no liveness probe: set livenessProbe",
		"details": {"container": "web", "field": "spec.containers[0].livenessProbe", "value": null},
	}}
}

test_liveness_probe_is_not_needed if {
	helpers := {
		"initContainers": [{"name": "prepare"}, {"name": "proxy", "restartPolicy": "Always"}],
		"ephemeralContainers": [{"name": "look"}],
	}
	every workload in [
		build.pod(helpers),
		build.deployment({"containers": [{"name": "web", "livenessProbe": {"exec": {"command": ["true"]}}}]}),
		build.cron_job(bare),
		build.templated("batch/v1", "Job", bare),
		build.pod_template(bare),
		build.pod(object.union(bare, {"restartPolicy": "Never"})),
		build.pod(object.union(bare, {"restartPolicy": "OnFailure"})),
	] {
		count(data.practices.probes.warn_missing_liveness) == 0 with input as workload
	}
}
