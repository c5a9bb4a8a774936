# METADATA
# title: References of Services
# description: The pods that a Service sends traffic to.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/services-networking/service/
# custom: {excusable: true}
package references.services

# METADATA
# title: Service without pods
# description: |
#   Connections to a Service that selects no pod fail. Workloads that are scaled to zero count, and so do labels that pods get
#   while they run, such as that of a leader. Services without a selector, and those shared by several clusters, are not reported.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/debug/debug-application/debug-service/#does-the-service-have-any-endpointslices
# custom:
#   id: REF-01
#   severity: medium
#   lookups: complete
deny_missing_pods contains result if {
	selector := selector_of_service
	not is_backed(selector)
	not is_global
	result := {
		"msg": sprintf("selector %s selects no pod: correct it, or remove the Service", [data.lib.selectors.text(selector)]),
		"details": {"field": "spec.selector", "value": selector},
	}
}

# METADATA
# title: Port that no pod has
# description: |
#   A Service finds a port by its name in the containers that it selects; without one, it has no endpoints for this port. Not
#   reported if the Service selects no pod, or if one of the workloads that it selects has the port.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/services-networking/service/#field-spec-ports
# custom:
#   id: REF-02
#   severity: medium
deny_missing_port contains result if {
	selector := selector_of_service
	some i, port in input.spec.ports
	is_string(port.targetPort)
	is_backed(selector)
	protocol := protocol_of(port)
	not has_port(selector, port.targetPort, protocol)
	result := {
		"msg": sprintf("no selected container has a %s port named \"%s\": name the container's port so, or correct targetPort", [protocol, port.targetPort]),
		"details": {"field": sprintf("spec.ports[%d].targetPort", [i]), "value": port.targetPort},
	}
}

selector_of_service := selector if {
	input.kind == "Service"
	input.apiVersion == "v1"
	not input.spec.type == "ExternalName"
	selector := input.spec.selector
	is_object(selector)
	count(selector) > 0
}

# The pods may be in another cluster.
is_global if {
	some name in ["io.cilium/global-service", "service.cilium.io/global"]
	input.metadata.annotations[name] == "true"
}

is_backed(selector) if {
	some kind in data.lib.pods.kinds
	some item in data.lib.pods.objects_beside(kind)
	data.lib.pods.selects(selector, kind, data.lib.pods.pod_of(kind, item))
}

has_port(selector, name, protocol) if {
	some kind in data.lib.pods.kinds
	some item in data.lib.pods.objects_beside(kind)
	pod := data.lib.pods.pod_of(kind, item)
	data.lib.pods.selects(selector, kind, pod)
	some container in serving(pod.spec)
	some port in container.ports
	port.name == name
	protocol_of(port) == protocol
}

# The containers whose ports count.
serving(spec) := [container |
	# mutants: equivalent, because is_main is true only in these lists.
	some list in ["containers", "initContainers"]
	some container in spec[list]
	data.lib.workload.is_main({"list": list, "spec": container})
]

protocol_of(port) := protocol if {
	protocol := port.protocol
	is_string(protocol)
} else := "TCP"
