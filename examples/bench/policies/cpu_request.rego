# METADATA
# title: No CPU request
package bench.cpu_request

deny contains msg if {
	spec := object.get(input.spec, ["template", "spec"], input.spec)
	some container in spec.containers
	not container.resources.requests.cpu
	msg := sprintf("container %s requests no CPU", [container.name])
}
