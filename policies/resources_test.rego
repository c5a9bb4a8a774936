package resources_test

import data.lib.build_test as build

pod_of(list, resources) := build.pod({list: [{"name": "web", "resources": resources}]})

test_memory_limit if {
	every list in ["containers", "initContainers"] {
		every resources in [null, {}, {"limits": null}, {"limits": {"cpu": "1"}}, {"limits": {"memory": null}}, {"requests": {"memory": "1Gi"}}] {
			count(data.resources.deny_missing_memory_limit) == 1 with input as pod_of(list, resources)
		}
		count(data.resources.deny_missing_memory_limit) == 0 with input as pod_of(list, {"limits": {"memory": "1Gi"}})
	}
	bare := {"containers": [{"name": "a"}, {"name": "b"}]}
	every workload in build.workloads(bare) {
		count(data.resources.deny_missing_memory_limit) == 2 with input as workload
	}
}

test_requests if {
	results := data.resources.warn_missing_requests with input as build.deployment({"containers": [{"name": "web"}]})
	results == {{
		"msg": "container \"web\" has no request for cpu and memory: set resources.requests",
		"details": {
			"container": "web",
			"field": "spec.template.spec.containers[0].resources.requests",
			"value": ["cpu", "memory"],
		},
	}}
	half := data.resources.warn_missing_requests with input as pod_of("containers", {"requests": {"cpu": "1", "memory": null}})
	build.messages(half) == {"container \"web\" has no request for memory: set resources.requests"}
}

test_limits_stand_in_for_requests if {
	every resources in [
		{"requests": {"cpu": "1", "memory": "1Gi"}},
		{"limits": {"cpu": "1", "memory": "1Gi"}},
		{"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
	] {
		count(data.resources.warn_missing_requests) == 0 with input as pod_of("containers", resources)
	}
}

test_resources_of_the_pod if {
	spec := {
		"resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
		"containers": [{"name": "web"}],
	}
	every workload in build.workloads(spec) {
		count(data.resources.deny_missing_memory_limit) == 0 with input as workload
		count(data.resources.warn_missing_requests) == 0 with input as workload
	}
}

test_ephemeral_containers_are_left_out if {
	pod := build.pod({"ephemeralContainers": [{"name": "look"}]})
	count(data.resources.deny_missing_memory_limit) == 0 with input as pod
	count(data.resources.warn_missing_requests) == 0 with input as pod
}
