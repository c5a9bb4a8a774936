package lib.neighbours_test

import data.lib.build_test as build
import data.lib.neighbours

named(namespace, kind, name) := {"apiVersion": "v1", "kind": kind, "metadata": object.union({"name": name}, namespace)}

store := build.inventory([
	named({"namespace": "shop"}, "Secret", "web"),
	named({}, "Secret", "api"),
	named({}, "Node", "a"),
	named({"namespace": "shop"}, "Node", "b"),
])

beside(namespace) := {[kind, name] |
	some kind in ["ConfigMap", "Secret"]
	some name in ["api", "web"]
	neighbours.is_beside("v1", kind, name) with input as {"metadata": namespace} with data.inventory as store
}

test_beside if {
	beside({"namespace": "shop"}) == {["Secret", "web"]}
	beside({"namespace": "bank"}) == set()
	beside({}) == {["Secret", "api"]}
}

test_in_cluster if {
	found := {name |
		some name in ["a", "b", "c"]
		neighbours.is_in_cluster("v1", "Node", name) with data.inventory as store
	}
	found == {"a", "b"}
	not neighbours.is_in_cluster("v1", "Namespace", "a") with data.inventory as store
}
