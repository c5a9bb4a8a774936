# METADATA
# description: Reads an admission request, as behind OPA's webhook.
# custom: {id: PORT-01, severity: low}
package kubernetes.admission

deny contains msg if {
	input.request.kind.kind == "Service"
	input.request.object.spec.type == "NodePort"
	msg := sprintf("service %s opens a port on every node", [input.request.object.metadata.name])
}
