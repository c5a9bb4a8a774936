package services_test

service(spec) := {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec}

# For the pages of the rules.
examples := {
	"deny_external_ips": {
		"violating": service({"selector": {"app": "web"}, "ports": [{"port": 80}], "externalIPs": ["192.0.2.1"]}),
		"correct": service({"selector": {"app": "web"}, "ports": [{"port": 80}]}),
	},
	"warn_node_port": {
		"violating": service({"selector": {"app": "web"}, "ports": [{"port": 80}], "type": "NodePort"}),
		"correct": service({"selector": {"app": "web"}, "ports": [{"port": 80}], "type": "ClusterIP"}),
	},
}

test_external_ips if {
	results := data.services.deny_external_ips with input as service({"externalIPs": ["192.0.2.1", "192.0.2.2"]})
	results == {{
		"msg": "service claims the external addresses 192.0.2.1, 192.0.2.2: remove spec.externalIPs",
		"details": {"field": "spec.externalIPs", "value": ["192.0.2.1", "192.0.2.2"], "fix": null},
	}}
	count(data.services.deny_external_ips) == 1 with input as service({"externalIPs": ["192.0.2.1", 1]})
	every spec in [{}, {"externalIPs": null}, {"externalIPs": []}, {"type": "LoadBalancer"}] {
		count(data.services.deny_external_ips) == 0 with input as service(spec)
	}
}

test_node_port if {
	results := data.services.warn_node_port with input as service({"type": "NodePort"})
	results == {{
		"msg": "service opens a port on every node: use type ClusterIP behind an Ingress or a Gateway",
		"details": {"field": "spec.type", "value": "NodePort"},
	}}
	every spec in [{}, {"type": null}, {"type": "ClusterIP"}, {"type": "LoadBalancer"}, {"type": "ExternalName"}] {
		count(data.services.warn_node_port) == 0 with input as service(spec)
	}
}

test_other_apis if {
	other := {"apiVersion": "serving.example.com/v1", "kind": "Service", "spec": {"type": "NodePort", "externalIPs": ["192.0.2.1"]}}
	count(data.services.warn_node_port) == 0 with input as other
	count(data.services.deny_external_ips) == 0 with input as other
}
