# METADATA
# title: No liveness probe
package bench.liveness

deny contains msg if {
	spec := object.get(input.spec, ["template", "spec"], input.spec)
	some container in spec.containers
	not container.livenessProbe
	msg := sprintf("container %s has no liveness probe", [container.name])
}
