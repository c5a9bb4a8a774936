# METADATA
# title: Nothing is scaled to zero
# description: Compares the object before and after an update.
# custom: {id: SCALE-01, severity: info}
package scaling

warn contains msg if {
	input.request.operation == "UPDATE"
	input.request.oldObject.spec.replicas > 0
	input.request.object.spec.replicas == 0
	msg := sprintf("scaled from %d to 0", [input.request.oldObject.spec.replicas])
}
