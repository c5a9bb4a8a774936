# Every object in a namespace has a violation, of one of three severities. The version is in the message, so that each change
# of an object changes its row. Pods have a separate rule, as violations that an owner has as well are only reported for the
# owner.
package bench.page

message := sprintf("%s is at version %s", [input.metadata.name, input.metadata.resourceVersion])

# METADATA
# title: Pods are denied
# custom: {severity: high}
deny_pod contains message if input.kind == "Pod"

# METADATA
# title: ReplicaSets have a warning
# custom: {severity: low}
warn_replicas contains message if input.kind == "ReplicaSet"

# METADATA
# title: Other objects in a namespace are denied
# custom: {severity: medium}
deny_other contains message if {
	input.metadata.namespace
	not input.kind in {"Pod", "ReplicaSet"}
}
