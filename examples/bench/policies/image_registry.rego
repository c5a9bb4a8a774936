# METADATA
# title: Image from a foreign registry
package bench.image_registry

deny contains msg if {
	spec := object.get(input.spec, ["template", "spec"], input.spec)
	some container in spec.containers
	not startswith(container.image, "registry.example.com/")
	msg := sprintf("container %s runs %s, which is not from registry.example.com", [container.name, container.image])
}
