package lib.services_test

import data.lib.services

test_ports if {
	service := {"spec": {"type": "ClusterIP", "ports": [{"name": "http", "port": 80}, {"port": 443}]}}
	services.has_port(service, 80)
	services.has_port(service, 443)
	services.has_port(service, "http")

	# The name of a single port may be left out.
	services.has_port(service, "")
	not services.has_port(service, 8080)
	not services.has_port(service, "https")
	not services.has_port({"spec": {"ports": null}}, 80)
	services.has_port({"spec": {"type": "ExternalName"}}, 80)
}
