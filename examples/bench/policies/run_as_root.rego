# METADATA
# title: May run as root
package bench.run_as_root

deny contains msg if {
	spec := object.get(input.spec, ["template", "spec"], input.spec)
	some container in spec.containers
	not container.securityContext.runAsNonRoot
	not spec.securityContext.runAsNonRoot
	msg := sprintf("container %s may run as root", [container.name])
}
