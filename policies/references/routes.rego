# METADATA
# title: References of routes
# description: The objects that an Ingress, a route or a Gateway of the Gateway API refers to.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/services-networking/ingress/
# custom: {excusable: true}
package references.routes

# METADATA
# title: Route to a missing Service
# description: |
#   Requests to a backend that does not exist, or does not have the port, are answered with an error. Not reported are backends
#   in another namespace (REF-13), and those that only name an annotation of a load balancer.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/services-networking/ingress/#the-ingress-resource
# custom:
#   id: REF-03
#   severity: medium
#   lookups: complete
deny_missing_backend contains result if {
	some result in data.lib.results.once([flaw(backend, problem) |
		some backend in backends
		backend.namespace == ""
		found := {service | service := data.lib.neighbours.in_namespace("v1", "Service")[backend.name]}
		problem := service_problem(backend.name, backend.port, found)
	])
}

# METADATA
# title: Route to another namespace
# description: |
#   A route may use a Service of another namespace only if a ReferenceGrant there allows it. Requests to a Service that is missing
#   or not allowed are answered with an error.
# related_resources:
# - ref: https://gateway-api.sigs.k8s.io/api-types/referencegrant/
# custom:
#   id: REF-13
#   severity: medium
#   lookups: complete
deny_missing_grant contains result if {
	some result in data.lib.results.once([flaw(backend, problem) |
		input.metadata.namespace
		some backend in backends
		backend.namespace != ""
		problem := distant_problem(backend)
	])
}

# METADATA
# title: Missing certificate
# description: |
#   Without its Secret, a host is served with a default certificate or not at all. Not reported where annotations show that a
#   controller creates the Secret.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/services-networking/ingress/#tls
# custom:
#   id: REF-14
#   severity: medium
#   lookups: complete
deny_missing_certificate contains result if {
	some result in data.lib.results.once([flaw(secret, msg) |
		some secret in certificates
		not has_issuer
		data.lib.secrets.is_missing(secret.name)
		msg := sprintf("TLS Secret \"%v\" does not exist: create it, or correct the name", [secret.name])
	])
}

# METADATA
# title: Missing class of an Ingress or Gateway
# description: |
#   No controller serves an object whose class does not exist. An annotation with the class is not checked.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/services-networking/ingress/#ingress-class
# custom:
#   id: REF-15
#   severity: medium
#   lookups: complete
deny_missing_class contains result if {
	some class in missing_classes
	result := {
		"msg": sprintf("%s \"%v\" does not exist, so nothing serves this %s: correct spec.%s", [class.kind, class.name, input.kind, class.field]),
		"details": {"field": sprintf("spec.%s", [class.field]), "value": class.name},
	}
}

flaw(reference, msg) := {"msg": msg, "details": {"field": reference.field, "value": reference.name}}

is_ingress if {
	input.kind == "Ingress"
	input.apiVersion == "networking.k8s.io/v1"
}

is_route if {
	input.kind in {"GRPCRoute", "HTTPRoute", "TCPRoute", "TLSRoute", "UDPRoute"}
	startswith(input.apiVersion, "gateway.networking.k8s.io/")
}

is_gateway if {
	input.kind == "Gateway"
	startswith(input.apiVersion, "gateway.networking.k8s.io/")
}

# The Services that the input sends requests to. The namespace is empty if it is that of the input.
backends := array.concat(default_backend, path_backends) if {
	is_ingress
	not is_redirect
} else := route_backends if {
	is_route
}

# The controller answers by itself.
is_redirect if {
	some name in ["nginx.ingress.kubernetes.io/permanent-redirect", "nginx.ingress.kubernetes.io/temporal-redirect"]
	input.metadata.annotations[name]
}

default_backend := [backend | backend := ingress_backend(input.spec.defaultBackend, "spec.defaultBackend")]

path_backends := [backend |
	some i, rule in input.spec.rules
	some j, path in rule.http.paths
	backend := ingress_backend(path.backend, sprintf("spec.rules[%d].http.paths[%d].backend", [i, j]))
]

# A port of this name means that the annotation with the name of the Service has the backend.
ingress_backend(backend, path) := {"name": name, "namespace": "", "port": port, "field": sprintf("%s.service", [path])} if {
	name := backend.service.name
	is_string(name)
	port := ingress_port(backend.service)
	port != "use-annotation"
}

ingress_port(service) := port if {
	port := service.port.name
	is_string(port)
} else := object.get(service, ["port", "number"], null)

route_backends := [{"name": ref.name, "namespace": namespace, "port": object.get(ref, "port", null), "field": field} |
	some i, rule in input.spec.rules
	some j, ref in rule.backendRefs
	is_string(ref.name)
	data.lib.selectors.given(ref, "kind", "Service") == "Service"
	data.lib.selectors.given(ref, "group", "") == ""
	namespace := distant_namespace(ref)
	field := sprintf("spec.rules[%d].backendRefs[%d]", [i, j])
]

distant_namespace(ref) := namespace if {
	namespace := ref.namespace
	namespace != null
	not namespace == input.metadata.namespace
} else := ""

# `found` has the Service, or is empty.
service_problem(name, _, found) := sprintf("backend Service \"%s\" does not exist: create it, or correct the name", [name]) if {
	count(found) == 0
}

service_problem(name, port, found) := sprintf("backend Service \"%s\" has no port %v: correct the port", [name, port]) if {
	some service in found
	port != null
	not data.lib.services.has_port(service, port)
}

distant_problem(backend) := problem if {
	found := {service | service := data.lib.neighbours.of_namespace(backend.namespace, "v1", "Service")[backend.name]}
	problem := service_problem(sprintf("%s/%s", [backend.namespace, backend.name]), backend.port, found)
} else := problem if {
	not is_granted(backend)
	problem := sprintf("no ReferenceGrant in namespace %s allows the backend Service \"%s\": create one there", [backend.namespace, backend.name])
}

is_granted(backend) if {
	some grant in data.lib.neighbours.of_namespace(backend.namespace, "gateway.networking.k8s.io/v1", "ReferenceGrant")
	grants(grant, backend)
}

is_granted(backend) if {
	some grant in data.lib.neighbours.of_namespace(backend.namespace, "gateway.networking.k8s.io/v1beta1", "ReferenceGrant")
	grants(grant, backend)
}

grants(grant, backend) if {
	some from in grant.spec.from
	from.group == "gateway.networking.k8s.io"
	from.kind == input.kind
	from.namespace == input.metadata.namespace
	some to in grant.spec.to
	to.group == ""
	to.kind == "Service"
	object.get(to, "name", null) in {null, "", backend.name}
}

certificates contains {"name": item.secretName, "field": sprintf("spec.tls[%d].secretName", [i])} if {
	is_ingress
	some i, item in input.spec.tls
	is_string(item.secretName)
	item.secretName != ""
}

certificates contains {"name": ref.name, "field": sprintf("spec.listeners[%d].tls.certificateRefs[%d].name", [i, j])} if {
	is_gateway
	some i, listener in input.spec.listeners
	some j, ref in listener.tls.certificateRefs
	is_string(ref.name)
	data.lib.selectors.given(ref, "kind", "Secret") == "Secret"
	data.lib.selectors.given(ref, "group", "") == ""
	distant_namespace(ref) == ""
}

has_issuer if {
	some name, _ in input.metadata.annotations
	regex.match(`^((acme\.)?cert-manager\.io/|kubernetes\.io/tls-acme$|cert\.gardener\.cloud/)`, name)
}

missing_classes contains {"kind": "IngressClass", "name": name, "field": "ingressClassName"} if {
	is_ingress
	name := input.spec.ingressClassName
	not name in {null, ""}
	not data.lib.neighbours.is_in_cluster("networking.k8s.io/v1", "IngressClass", name)
}

missing_classes contains {"kind": "GatewayClass", "name": name, "field": "gatewayClassName"} if {
	is_gateway
	name := input.spec.gatewayClassName
	not name in {null, ""}
	not data.lib.neighbours.is_in_cluster("gateway.networking.k8s.io/v1", "GatewayClass", name)
	not data.lib.neighbours.is_in_cluster("gateway.networking.k8s.io/v1beta1", "GatewayClass", name)
}
