# METADATA
# title: Namespaces
# description: For rules that report a Namespace because of what is in it, and for selectors of Namespaces.
package lib.namespaces

# METADATA
# description: The Namespaces of Kubernetes itself.
system := {"kube-node-lease", "kube-public", "kube-system"}

# METADATA
# description: |
#   The name of the input, if it is a Namespace for applications; undefined for the Namespaces of Kubernetes itself and for one that
#   is being deleted.
name := input.metadata.name if {
	input.kind == "Namespace"
	input.apiVersion == "v1"
	not input.metadata.name in system
	object.get(input.metadata, "deletionTimestamp", null) == null
}

# METADATA
# description: Whether the Namespace of that name contains pods or workloads, also if they are scaled to zero or finished.
is_used if {
	some kind in data.lib.pods.kinds
	count(data.lib.pods.objects(name, kind)) > 0
}

# METADATA
# description: Whether the Namespace of that name contains objects of a kind.
has(version, kind) if count(data.lib.neighbours.of_namespace(name, version, kind)) > 0

# METADATA
# description: Whether a LabelSelector selects a Namespace.
selects_any(selector) if {
	some found in candidates(selector)
	exists(found)
	data.lib.selectors.matches(selector, labels(found))
}

# Not all for every selector: a cluster may have thousands of Namespaces.
candidates(selector) := [found] if {
	found := selector.matchLabels[name_label]
} else := array.concat([found | some found in built_in], [found | some found, _ in data.lib.neighbours.of_cluster("v1", "Namespace")])

# METADATA
# description: The labels of a Namespace, with the one that the API server sets.
labels(found) := object.union(own_labels(found), {name_label: found})

name_label := "kubernetes.io/metadata.name"

# Namespaces that every cluster has.
built_in := system | {"default"}

exists(found) if found in built_in

exists(found) if data.lib.neighbours.of_cluster("v1", "Namespace")[found]

own_labels(found) := own if {
	own := data.lib.selectors.labels(data.lib.neighbours.of_cluster("v1", "Namespace")[found].metadata)
} else := {}
