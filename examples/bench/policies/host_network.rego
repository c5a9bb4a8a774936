# METADATA
# title: Network of the node
package bench.host_network

deny contains msg if {
	spec := object.get(input.spec, ["template", "spec"], input.spec)
	spec.hostNetwork
	msg := sprintf("%s uses the network of its node", [input.metadata.name])
}
