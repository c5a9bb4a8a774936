package resources_test

import data.lib.build_test as build

pod_of(list, resources) := build.pod({list: [{"name": "web", "resources": resources}]})

sidecar(resources) := build.pod({"initContainers": [{"name": "web", "restartPolicy": "Always", "resources": resources}]})

# For the pages of the rules.
examples := {
	"deny_missing_memory_limit": {
		"violating": build.small({}, {"resources": {"requests": {"cpu": "50m", "memory": "64Mi"}}}),
		"correct": build.small({}, {"resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "64Mi"}}}),
	},
	"warn_missing_requests": {
		"violating": build.small({}, {"resources": {"limits": {"memory": "64Mi"}}}),
		"correct": build.small({}, {"resources": {"requests": {"cpu": "50m"}, "limits": {"memory": "64Mi"}}}),
	},
}

test_memory_limit if {
	every resources in [null, {}, {"limits": null}, {"limits": {"cpu": "1"}}, {"limits": {"memory": null}}, {"requests": {"memory": "1Gi"}}] {
		count(data.resources.deny_missing_memory_limit) == 1 with input as pod_of("containers", resources)
		count(data.resources.deny_missing_memory_limit) == 1 with input as sidecar(resources)
	}
	every pod in [pod_of("containers", {"limits": {"memory": "1Gi"}}), sidecar({"limits": {"memory": "1Gi"}})] {
		count(data.resources.deny_missing_memory_limit) == 0 with input as pod
	}
	results := data.resources.deny_missing_memory_limit with input as pod_of("containers", null)
	results == {{
		"msg": "container \"web\" has no memory limit: set resources.limits.memory",
		"details": {"container": "web", "field": "spec.containers[0].resources.limits.memory", "value": null},
	}}
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
	unset := data.resources.warn_missing_requests with input as pod_of("containers", {"requests": {"cpu": "1"}, "limits": {"memory": null}})
	unset == half
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

test_containers_that_end_are_left_out if {
	every spec in [
		{"ephemeralContainers": [{"name": "debug"}]},
		{"ephemeralContainers": [{"name": "debug", "restartPolicy": "Always"}]},
		{"initContainers": [{"name": "prepare"}]},
		{"initContainers": [{"name": "prepare", "restartPolicy": null}]},
		{"initContainers": [{"name": "prepare", "restartPolicy": "OnFailure"}]},
	] {
		every workload in build.workloads(spec) {
			count(data.resources.deny_missing_memory_limit) == 0 with input as workload
			count(data.resources.warn_missing_requests) == 0 with input as workload
		}
	}
}

test_sidecars_request if {
	results := data.resources.warn_missing_requests with input as sidecar({})
	build.messages(results) == {"init container \"web\" has no request for cpu and memory: set resources.requests"}
}

bare := {"containers": [{"name": "web"}]}

# Workloads in a namespace with a LimitRange that has this limit.
limited(limit) := {"namespace": {"shop": {"v1": {"LimitRange": {"sizes": {"spec": {"limits": [{"type": "Pod"}, limit]}}}}}}}

severities(results) := {object.get(result, "severity", "as the rule's") | some result in results}

test_limit_range_with_a_memory_limit if {
	every field in ["default", "max"] {
		inventory := limited({"type": "Container", field: {"memory": "1Gi"}})
		every workload in build.workloads_in("shop", bare) {
			results := data.resources.deny_missing_memory_limit with input as workload with data.inventory as inventory
			build.messages(results) == {"container \"web\" has only the memory limit that a LimitRange sets: set resources.limits.memory"}
			severities(results) == {"info"}
			every result in results { endswith(result.details.field, "spec.containers[0].resources.limits.memory") }
			{result.details.value | some result in results} == {null}
		}
	}
	every limit in [
		{"type": "Container", "default": {"cpu": "1"}},
		{"type": "Container", "default": {"memory": null}},
		{"type": "Container", "default": null},
		{"type": "Container", "defaultRequest": {"memory": "1Gi"}},
		{"type": "Container", "min": {"memory": "1Gi"}},
		{"type": "Pod", "max": {"memory": "1Gi"}},
	] {
		every workload in build.workloads_in("shop", bare) {
			results := data.resources.deny_missing_memory_limit with input as workload with data.inventory as limited(limit)
			severities(results) == {"as the rule's"}
		}
	}
}

test_limit_range_with_requests if {
	every field in ["default", "defaultRequest", "max", "min"] {
		both := limited({"type": "Container", field: {"cpu": "1", "memory": "1Gi"}})
		every workload in build.workloads_in("shop", bare) {
			results := data.resources.warn_missing_requests with input as workload with data.inventory as both
			build.messages(results) == {"container \"web\" has only the request for cpu and memory that a LimitRange sets: set resources.requests"}
			severities(results) == {"info"}
			every result in results { endswith(result.details.field, "spec.containers[0].resources.requests") }
		}

		# What no LimitRange sets is missing all the same.
		memory := limited({"type": "Container", field: {"memory": "1Gi"}})
		every workload in build.workloads_in("shop", bare) {
			results := data.resources.warn_missing_requests with input as workload with data.inventory as memory
			build.messages(results) == {"container \"web\" has no request for cpu: set resources.requests"}
			severities(results) == {"as the rule's"}
		}
	}

	# Values of two LimitRanges.
	two := {"namespace": {"shop": {"v1": {"LimitRange": {
		"a": {"spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "1"}}]}},
		"b": {"spec": {"limits": [{"type": "Container", "max": {"memory": "1Gi"}}]}},
	}}}}}
	every workload in build.workloads_in("shop", bare) {
		results := data.resources.warn_missing_requests with input as workload with data.inventory as two
		severities(results) == {"info"}
	}
}

test_limit_range_of_another_namespace if {
	inventory := limited({"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}})
	every namespace in ["bank", null] {
		every workload in build.workloads_in(namespace, bare) {
			limits := data.resources.deny_missing_memory_limit with input as workload with data.inventory as inventory
			severities(limits) == {"as the rule's"}
			requests := data.resources.warn_missing_requests with input as workload with data.inventory as inventory
			severities(requests) == {"as the rule's"}
		}
	}
}

# Values are set in a Pod when it is created, so one that lacks them is not limited.
test_limit_range_after_a_pod if {
	inventory := limited({"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}})
	pod := object.union(build.pod(bare), {"metadata": {"namespace": "shop"}})
	limits := data.resources.deny_missing_memory_limit with input as pod with data.inventory as inventory
	severities(limits) == {"as the rule's"}
	requests := data.resources.warn_missing_requests with input as pod with data.inventory as inventory
	severities(requests) == {"as the rule's"}
}

test_limit_range_and_manifests_without_namespace if {
	sizes := {"spec": {"limits": [{"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}}]}}
	inventory := {"cluster": {"v1": {"LimitRange": {"sizes": sizes}}}}
	limits := data.resources.deny_missing_memory_limit with input as build.deployment(bare) with data.inventory as inventory
	severities(limits) == {"info"}
	elsewhere := object.union(build.deployment(bare), {"metadata": {"namespace": "shop"}})
	others := data.resources.deny_missing_memory_limit with input as elsewhere with data.inventory as inventory
	severities(others) == {"as the rule's"}
}
