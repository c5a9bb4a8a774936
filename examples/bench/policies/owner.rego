# METADATA
# title: Workload without an owner
package bench.owner

# The benchmark removes and restores this label.
deny contains msg if {
	input.kind in {"Pod", "Deployment"}
	not input.metadata.labels.owner
	msg := sprintf("%s has no label owner", [input.metadata.name])
}
