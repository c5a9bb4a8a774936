# METADATA
# title: Image without a fixed tag
package bench.image_tag

deny contains msg if {
	spec := object.get(input.spec, ["template", "spec"], input.spec)
	some container in spec.containers
	endswith(container.image, ":latest")
	msg := sprintf("container %s runs %s, which changes with every push", [container.name, container.image])
}
