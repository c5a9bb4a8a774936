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
