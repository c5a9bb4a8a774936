# METADATA
# title: Services
package lib.services

# METADATA
# description: |
#   Whether a Service has a port with this number or name. One of type ExternalName has no ports of its own.
has_port(service, _) if service.spec.type == "ExternalName"

has_port(service, port) if {
	some each in service.spec.ports
	port in {each.port, object.get(each, "name", "")}
}

# METADATA
# description: |
#   Whether a Service in the namespace of the input selects the pod of a workload. A Service without selector has no pods of its
#   own, and one of the type ExternalName none at all.
select_pod if {
	some service in data.lib.neighbours.in_namespace("v1", "Service")
	selects_pod(service)
}

# METADATA
# description: Whether a Service selects the pod of the input, a workload.
selects_pod(service) if {
	data.lib.selectors.matches_map(service.spec.selector, data.lib.workload.holder.metadata.labels)
	not service.spec.type == "ExternalName"
}
