# What rules in Kubescape's layout may import as data.cautils: the helpers of that name that need no scanner on the nodes.
package cautils

list_contains(list, element) {
	list[_] == element
}

object_intersection(object, other) = common {
	common := {key: value | value := other[key]; object[key] == value}
}

is_subobject(part, object) {
	object_intersection(object, part) == part
}

getPodName(metadata) = metadata.name
