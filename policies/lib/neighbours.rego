# METADATA
# title: Objects beside the input
# description: |
#   Finds objects that a rule looks up. A rule that uses these functions declares `custom.lookups: optional`: where the
#   objects cannot be read, it is evaluated as if there were none.
package lib.neighbours

# METADATA
# description: |
#   The objects of a kind in the namespace of the input, by name; undefined if there are none. In manifests, the namespace
#   may be left out: then it is left out in those of its neighbours, too.
in_namespace(version, kind) := data.inventory.namespace[input.metadata.namespace][version][kind] if {
	input.metadata.namespace
} else := data.inventory.cluster[version][kind] if {
	not input.metadata.namespace
}

# METADATA
# description: |
#   The objects of a cluster-scoped kind that have a name: one, or none. Manifests may give it a namespace, which the API
#   server ignores, and then there may be several.
in_cluster(version, kind, name) := own | placed if {
	own := {found | found := data.inventory.cluster[version][kind][name]}
	placed := {found | found := data.inventory.namespace[_][version][kind][name]}
}
