package probes_test

import data.lib.build_test as build

bare := {"containers": [{"name": "web"}, {"name": "log", "readinessProbe": null, "livenessProbe": null}]}

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

test_probes if {
	ready := {"containers": [{"name": "web", "readinessProbe": {"tcpSocket": {"port": 80}}}]}
	count(data.probes.warn_missing_readiness) == 0 with input as build.deployment(ready)
	count(data.probes.warn_missing_liveness) == 1 with input as build.deployment(ready)
	alive := {"containers": [{"name": "web", "livenessProbe": {"exec": {"command": ["true"]}}}]}
	count(data.probes.warn_missing_readiness) == 1 with input as build.deployment(alive)
	count(data.probes.warn_missing_liveness) == 0 with input as build.deployment(alive)
}

test_helpers_are_left_out if {
	helpers := {
		"initContainers": [{"name": "prepare"}, {"name": "proxy", "restartPolicy": "Always"}],
		"ephemeralContainers": [{"name": "look"}],
	}
	count(data.probes.warn_missing_readiness) == 0 with input as build.pod(helpers)
	count(data.probes.warn_missing_liveness) == 0 with input as build.pod(helpers)
}
