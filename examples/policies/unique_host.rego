# METADATA
# title: A host belongs to one Ingress
# description: Looks up the other Ingresses in the inventory.
# custom: {id: HOST-01, severity: high}
package unique_host

deny contains msg if {
	input.kind == "Ingress"
	host := input.spec.rules[_].host
	other := data.kubernetes.ingresses[namespace][name]
	other.spec.rules[_].host == host
	[namespace, name] != [input.metadata.namespace, input.metadata.name]
	msg := sprintf("host %s is that of Ingress %s/%s too", [host, namespace, name])
}
