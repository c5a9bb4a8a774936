# METADATA
# title: Objects beside the input
# description: |
#   Finds objects that a rule looks up. Name versions and kinds with string literals: kaudit reads from them which kinds a rule
#   needs. A rule whose results such objects only refine declares `custom.lookups: optional`: where they cannot be read, it is
#   evaluated as if there were none. A rule that reports what is missing declares `custom.lookups: complete`.
package lib.neighbours

# METADATA
# description: |
#   The objects of a kind in the namespace of the input, by name; undefined if there are none. In manifests, the namespace
#   may be left out: then those of its neighbours are left out, too, or kaudit also finds those in the namespace `default`.
in_namespace(version, kind) := of_namespace(input.metadata.namespace, version, kind) if {
	# mutants: equivalent, because it is what the line above reads: else needs a condition before it.
	input.metadata.namespace
} else := of_namespace("", version, kind) if {
	not input.metadata.namespace
}

# METADATA
# description: |
#   The objects of a kind in a namespace, by name; undefined if there are none. The empty string means manifests without a
#   namespace.
of_namespace("", version, kind) := data.inventory.cluster[version][kind]

of_namespace(namespace, version, kind) := data.inventory.namespace[namespace][version][kind] if {
	# mutants: equivalent, because no namespace has an empty name.
	namespace != ""
}

# METADATA
# description: |
#   The objects of a cluster-scoped kind that have a name: one, or none. Manifests may give it a namespace, which the API
#   server ignores, and then there may be several.
in_cluster(version, kind, name) := own | placed if {
	own := {found | found := data.inventory.cluster[version][kind][name]}
	placed := {found | found := data.inventory.namespace[_][version][kind][name]}
}

# METADATA
# description: Whether the namespace of the input has an object of a kind with this name.
is_beside(version, kind, name) if in_namespace(version, kind)[name]

# METADATA
# description: Whether there is an object of a cluster-scoped kind with this name.
is_in_cluster(version, kind, name) if {
	data.inventory.cluster[version][kind][name]
} else if {
	data.inventory.namespace[_][version][kind][name]
}

# METADATA
# description: The objects of a cluster-scoped kind, by name; undefined if there are none.
of_cluster(version, kind) := data.inventory.cluster[version][kind]

# METADATA
# description: The objects of a kind in all namespaces, and those without a namespace.
everywhere(version, kind) := array.concat(
	[found | found := data.inventory.cluster[version][kind][_]],
	[found | found := data.inventory.namespace[_][version][kind][_]],
)
