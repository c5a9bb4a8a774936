# METADATA
# title: Nobody's workload
package bench.owner

# The label that the benchmark takes away and gives back.
deny contains msg if {
	input.kind in {"Pod", "Deployment"}
	not input.metadata.labels.owner
	msg := sprintf("%s has no label owner", [input.metadata.name])
}
