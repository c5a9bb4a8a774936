package references.scaling_test

import data.lib.build_test as build

# For the pages of the rules. Both manifests are checked beside these objects.
examples := {
	"deny_missing_target": {
		"beside": [build.deployment({"containers": []})],
		"violating": autoscaler("v2", {"scaleTargetRef": target("apps/v1", "Deployment", "wbe")}),
		"correct": autoscaler("v2", {"scaleTargetRef": target("apps/v1", "Deployment", "web")}),
	},
	"deny_missing_request": {
		"beside": [build.deployment({"containers": [{"name": "web", "resources": {"requests": {"memory": "64Mi"}}}]})],
		"violating": autoscaler("v2", {"scaleTargetRef": web, "metrics": [utilization("cpu")]}),
		"correct": autoscaler("v2", {"scaleTargetRef": web, "metrics": [utilization("memory")]}),
	},
}

test_examples if {
	every rule, example in examples {
		store := build.inventory(example.beside)
		count(data.references.scaling[rule]) == 1 with input as example.violating with data.inventory as store
		count(data.references.scaling[rule]) == 0 with input as example.correct with data.inventory as store
	}
}

autoscaler(version, spec) := {
	"apiVersion": sprintf("autoscaling/%s", [version]),
	"kind": "HorizontalPodAutoscaler",
	"metadata": {"name": "web"},
	"spec": object.union({"minReplicas": 2, "maxReplicas": 5}, spec),
}

target(version, kind, name) := {"apiVersion": version, "kind": kind, "name": name}

web := target("apps/v1", "Deployment", "web")

resource(name, type) := {"name": name, "target": {"type": type, "averageUtilization": 80}}

utilization(name) := {"type": "Resource", "resource": resource(name, "Utilization")}

of_container(name, container) := {
	"type": "ContainerResource",
	"containerResource": object.union(resource(name, "Utilization"), {"container": container}),
}

missing(item, objects) := build.messages(results) if {
	results := data.references.scaling.deny_missing_target with input as item with data.inventory as build.inventory(objects)
}

kinds := {"Deployment": "apps/v1", "ReplicaSet": "apps/v1", "ReplicationController": "v1", "StatefulSet": "apps/v1"}

test_missing_target if {
	every kind, version in kinds {
		every api in ["v1", "v2"] {
			item := autoscaler(api, {"scaleTargetRef": target(version, kind, "web")})
			absent := {sprintf("scale target %s \"web\" does not exist: create it, or correct spec.scaleTargetRef", [kind])}
			missing(item, []) == absent
			missing(item, [build.templated("apps/v1", "DaemonSet", {})]) == absent
			missing(item, [object.union(build.templated(version, kind, {}), {"metadata": {"name": "api"}})]) == absent
			missing(item, [build.templated(version, kind, {})]) == set()
		}
	}
	results := data.references.scaling.deny_missing_target with input as autoscaler("v2", {"scaleTargetRef": web})
	{result.details | some result in results} == {{"field": "spec.scaleTargetRef.name", "value": "web"}}
}

test_target_of_another_kind if {
	every kind, version in kinds {
		item := autoscaler("v2", {"scaleTargetRef": target(version, kind, "web")})
		others := [build.templated(each_version, each, {}) | some each, each_version in kinds; each != kind]
		count(missing(item, others)) == 1
	}
}

test_target_of_another_namespace if {
	item := object.union(autoscaler("v2", {"scaleTargetRef": web}), {"metadata": {"namespace": "shop"}})
	every namespace, want in {"shop": 0, "bank": 1} {
		count(missing(item, [object.union(build.deployment({}), {"metadata": {"namespace": namespace}})])) == want
	}
}

test_targets_that_are_not_checked if {
	every ref in [
		target("argoproj.io/v1alpha1", "Rollout", "web"),
		target("example.com/v1", "Deployment", "web"),
		target(null, "Deployment", "web"),
		target("apps/v1", "Deployment", null),
		null,
	] {
		missing(autoscaler("v2", {"scaleTargetRef": ref}), []) == set()
	}
	every change in [{"apiVersion": "autoscaling.example.com/v1"}, {"kind": "VerticalPodAutoscaler"}] {
		missing(object.union(autoscaler("v2", {"scaleTargetRef": web}), change), []) == set()
	}
}

# The messages about these metrics, if the target has these containers.
unmeasured(metrics, containers) := unmeasured_in(metrics, {"containers": containers}, [])

unmeasured_in(metrics, pod, objects) := found if {
	store := build.inventory(array.concat([build.deployment(pod)], objects))
	found := data.references.scaling.deny_missing_request with input as autoscaler("v2", {"scaleTargetRef": web, "metrics": metrics})
		with data.inventory as store
}

requests(resources) := {"name": "web", "resources": {"requests": resources}}

test_missing_request if {
	every container in [{"name": "web"}, {"name": "web", "resources": null}, requests(null), requests({"cpu": null}), requests({"memory": "1Gi"})] {
		results := unmeasured([utilization("cpu")], [requests({"cpu": "1"}), container])
		results == {{
			"msg": "container \"web\" of the target has no cpu request, so its utilization is unknown: set resources.requests.cpu",
			"details": {"field": "spec.metrics[0].resource", "value": "cpu", "container": "web"},
		}}
	}
	build.messages(unmeasured([utilization("memory")], [{}])) == {"container \"\" of the target has no memory request, so its utilization is unknown: set resources.requests.memory"}
}

test_requests if {
	unmeasured([utilization("cpu")], [requests({"cpu": "1"})]) == set()
	unmeasured([utilization("cpu")], [{"name": "web", "resources": {"limits": {"cpu": "1"}}}]) == set()
	unmeasured([utilization("memory")], [requests({"memory": "1Gi"})]) == set()
	unmeasured_in([utilization("cpu")], {"resources": {"requests": {"cpu": "2"}}, "containers": [{"name": "web"}]}, []) == set()
}

test_requests_of_a_limit_range if {
	range := {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "a"}, "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "1"}}]}}
	unmeasured_in([utilization("cpu")], {"containers": [{"name": "web"}]}, [range]) == set()
	count(unmeasured_in([utilization("memory")], {"containers": [{"name": "web"}]}, [range])) == 1
}

test_every_kind_of_target if {
	every kind, version in kinds {
		store := build.inventory([build.templated(version, kind, {"containers": [{"name": "web"}]})])
		item := autoscaler("v2", {"scaleTargetRef": target(version, kind, "web"), "metrics": [utilization("cpu")]})
		count(data.references.scaling.deny_missing_request) == 1 with input as item with data.inventory as store
	}
	unplaced := autoscaler("v2", {"scaleTargetRef": web, "metrics": [utilization("cpu")]})
	count(data.references.scaling.deny_missing_request) == 0 with input as unplaced
}

test_metric_of_one_container if {
	containers := [requests({"cpu": "1"}), {"name": "proxy"}]
	unmeasured([of_container("cpu", "web")], containers) == set()
	unmeasured([of_container("cpu", "other")], containers) == set()
	build.fields(unmeasured([{"type": "Pods"}, of_container("cpu", "proxy")], containers)) == {"spec.metrics[1].containerResource"}
}

test_metrics_that_need_no_request if {
	every metric in [
		{"type": "Resource", "resource": resource("cpu", "AverageValue")},
		{"type": "ContainerResource", "containerResource": object.union(resource("cpu", "AverageValue"), {"container": "web"})},
		{"type": "Pods", "resource": resource("cpu", "Utilization")},
		{"type": "Pods", "containerResource": object.union(resource("cpu", "Utilization"), {"container": "web"})},
		{"type": "External"},
		null,
	] {
		unmeasured([metric], [{"name": "web"}]) == set()
	}
	unmeasured(null, [{"name": "web"}]) == set()
}

test_first_version if {
	store := build.inventory([build.deployment({"containers": [{"name": "web"}]})])
	every percentage, want in {80: {["spec.targetCPUUtilizationPercentage", "cpu"]}, null: set()} {
		item := autoscaler("v1", {"scaleTargetRef": web, "targetCPUUtilizationPercentage": percentage})
		results := data.references.scaling.deny_missing_request with input as item with data.inventory as store
		{[result.details.field, result.details.value] | some result in results} == want
		other := object.union(item, {"apiVersion": "example.com/v1"})
		count(data.references.scaling.deny_missing_request) == 0 with input as other with data.inventory as store
	}
}
