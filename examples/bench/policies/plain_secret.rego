# METADATA
# title: Secret in the environment
package bench.plain_secret

deny contains msg if {
	spec := object.get(input.spec, ["template", "spec"], input.spec)
	some container in spec.containers
	some variable in container.env
	endswith(variable.name, "_PASSWORD")
	variable.value
	msg := sprintf("container %s has the value of %s in its specification", [container.name, variable.name])
}
