package practices.namespaces_test

import data.lib.build_test as build

shop := {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}

in_namespace(namespace, item) := object.union(item, {"metadata": {"namespace": namespace}})

service(name) := {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"selector": {"app": "web"}}}

web := in_namespace("shop", build.deployment({}))

named(kind, namespace) := {"apiVersion": "v1", "kind": kind, "metadata": {"name": "shop", "namespace": namespace}, "spec": {}}

# For the pages of the rules; with the objects beside each of both.
examples := {
	"warn_default_namespace": {
		"violating": in_namespace("default", service("web")),
		"correct": in_namespace("shop", service("web")),
		"beside": {"violating": [], "correct": []},
	},
	"warn_missing_quota": {
		"violating": shop,
		"correct": shop,
		"beside": {"violating": [web], "correct": [web, named("ResourceQuota", "shop")]},
	},
}

placed(item) := results if results := data.practices.namespaces.warn_default_namespace with input as item

test_in_default if {
	every workload in array.concat(build.workloads({}), [service("web")]) {
		placed(in_namespace("default", workload)) == {{
			"msg": "object is in the namespace default: set metadata.namespace to a namespace of the application",
			"details": {"field": "metadata.namespace", "value": "default"},
		}}
	}
}

test_in_another_or_no_namespace if {
	every workload in array.concat(build.workloads({}), [service("web")]) {
		placed(workload) == set()
		every namespace in ["shop", "", null] {
			placed(in_namespace(namespace, workload)) == set()
		}
	}
}

test_what_may_be_in_default if {
	every other in [
		service("kubernetes"),
		{"apiVersion": "serving.example.com/v1", "kind": "Service", "metadata": {"name": "web"}},
		{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}},
		{"apiVersion": "example.com/v1", "kind": "Pod", "metadata": {"name": "web"}},
		{"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "web"}},
	] {
		placed(in_namespace("default", other)) == set()
	}
}

missing(namespace, objects) := results if {
	results := data.practices.namespaces.warn_missing_quota with input as namespace with data.inventory as build.inventory(objects)
}

test_no_quota if {
	missing(shop, [web]) == {{
		"msg": "namespace has neither a ResourceQuota nor a LimitRange: add a ResourceQuota for CPU and memory",
		"details": {},
	}}
	count(missing(shop, [web, named("ResourceQuota", "bank"), named("LimitRange", "bank")])) == 1
}

test_quota if {
	every kind in ["ResourceQuota", "LimitRange"] {
		missing(shop, [web, named(kind, "shop")]) == set()
	}
}

test_namespaces_without_workloads_and_of_the_system if {
	missing(shop, []) == set()
	missing(shop, [in_namespace("bank", build.deployment({}))]) == set()
	system := object.union(shop, {"metadata": {"name": "kube-system"}})
	missing(system, [in_namespace("kube-system", build.deployment({}))]) == set()
	missing(object.union(shop, {"kind": "Node"}), [web]) == set()
}
