package practices.resources_test

import data.lib.build_test as build
import data.resources_test

# For the pages of the rules.
examples := {"warn_missing_cpu_limit": {
	"violating": build.small({}, {"resources": {"requests": {"cpu": "50m"}}}),
	"correct": build.small({}, {"resources": {"requests": {"cpu": "50m"}, "limits": {"cpu": "500m"}}}),
}}

test_missing_limit if {
	every resources in [null, {}, {"limits": null}, {"limits": {"memory": "1Gi"}}, {"limits": {"cpu": null}}, {"requests": {"cpu": "1"}}] {
		every workload in build.workloads({"containers": [{"name": "web", "resources": resources}]}) {
			results := data.practices.resources.warn_missing_cpu_limit with input as workload
			build.messages(results) == {"container \"web\" has no CPU limit: set resources.limits.cpu"}
			{result.details.value | some result in results} == {null}
		}
	}
	sidecar := build.pod({"initContainers": [{"name": "proxy", "restartPolicy": "Always"}]})
	results := data.practices.resources.warn_missing_cpu_limit with input as sidecar
	build.fields(results) == {"spec.initContainers[0].resources.limits.cpu"}
}

test_limit if {
	every workload in build.workloads({"containers": [{"name": "web", "resources": {"limits": {"cpu": "1"}}}]}) {
		count(data.practices.resources.warn_missing_cpu_limit) == 0 with input as workload
	}
}

test_limit_of_the_pod if {
	every workload in build.workloads({"resources": {"limits": {"cpu": "1"}}, "containers": [{"name": "web"}]}) {
		count(data.practices.resources.warn_missing_cpu_limit) == 0 with input as workload
	}
}

test_containers_that_end if {
	every spec in [{"initContainers": [{"name": "prepare"}]}, {"ephemeralContainers": [{"name": "debug"}]}] {
		count(data.practices.resources.warn_missing_cpu_limit) == 0 with input as build.pod(spec)
	}
}

test_limit_range if {
	spec := {"containers": [{"name": "web"}]}
	every field in ["default", "max"] {
		inventory := resources_test.limited({"type": "Container", field: {"cpu": "1"}})
		every workload in build.workloads_in("shop", spec) {
			count(data.practices.resources.warn_missing_cpu_limit) == 0 with input as workload with data.inventory as inventory
		}
		every workload in build.workloads_in("bank", spec) {
			count(data.practices.resources.warn_missing_cpu_limit) == 1 with input as workload with data.inventory as inventory
		}
		pod := object.union(build.pod(spec), {"metadata": {"namespace": "shop"}})
		count(data.practices.resources.warn_missing_cpu_limit) == 1 with input as pod with data.inventory as inventory
	}
	every limit in [{"type": "Container", "default": {"memory": "1Gi"}}, {"type": "Container", "defaultRequest": {"cpu": "1"}}, {"type": "Pod", "max": {"cpu": "1"}}] {
		every workload in build.workloads_in("shop", spec) {
			count(data.practices.resources.warn_missing_cpu_limit) == 1 with input as workload with data.inventory as resources_test.limited(limit)
		}
	}
}

test_other_kinds if {
	pod := object.union(build.pod({"containers": [{"name": "web"}]}), {"apiVersion": "example.com/v1"})
	count(data.practices.resources.warn_missing_cpu_limit) == 0 with input as pod
}
