# Everything in a namespace violates something, of three severities. The version is in the message, so that each change of an
# object changes its row. Pods have a rule of their own: what an owner violates, too, is told of the owner alone.
package bench.page

said := sprintf("%s is at version %s", [input.metadata.name, input.metadata.resourceVersion])

# METADATA
# title: Pods are here to be denied
# custom: {severity: high}
deny_pod contains said if input.kind == "Pod"

# METADATA
# title: ReplicaSets are here to be warned of
# custom: {severity: low}
warn_replicas contains said if input.kind == "ReplicaSet"

# METADATA
# title: Everything else in a namespace is here to be denied
# custom: {severity: medium}
deny_other contains said if {
	input.metadata.namespace
	not input.kind in {"Pod", "ReplicaSet"}
}
