# METADATA
# title: Privileged container
package bench.privileged

deny contains msg if {
	spec := object.get(input.spec, ["template", "spec"], input.spec)
	some container in spec.containers
	container.securityContext.privileged
	msg := sprintf("container %s is privileged", [container.name])
}
