# METADATA
# title: No memory limit
package bench.memory_limit

deny contains msg if {
	spec := object.get(input.spec, ["template", "spec"], input.spec)
	some container in spec.containers
	not container.resources.limits.memory
	msg := sprintf("container %s has no memory limit", [container.name])
}
