# METADATA
# title: Requests and limits
# description: Resources that a container or a pod has, and those that a LimitRange adds.
package lib.resources

# METADATA
# description: Whether a container or a pod has a limit for a resource. Null means unset.
is_limited(spec, resource) if spec.resources.limits[resource] != null

# METADATA
# description: Whether a container or a pod has a request for a resource. A limit serves as the request.
is_requested(spec, resource) if spec.resources.requests[resource] != null

is_requested(spec, resource) if is_limited(spec, resource)

# METADATA
# description: |
#   The resources for which a LimitRange sets a limit in containers without one. The API server completes a LimitRange in the same way:
#   a maximum serves as the default, and a limit as the request.
default_limits := resources_in({"default", "max"})

# METADATA
# description: The resources for which a LimitRange sets a request in containers without one.
default_requests := resources_in({"default", "defaultRequest", "max", "min"})

resources_in(fields) := {resource |
	# A Pod has the values since its creation, or does not get them any more.
	input.kind != "Pod"
	some limit_range in data.lib.neighbours.in_namespace("v1", "LimitRange")
	some limit in limit_range.spec.limits
	limit.type == "Container"
	some field in fields
	some resource, value in limit[field]
	value != null
}
