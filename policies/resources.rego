# METADATA
# title: Resources
# description: What a container requests and its limits. Values set for the pod apply to each container.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/
package resources

# METADATA
# title: Memory limit
# description: Without a memory limit, one container can exhaust the memory of its node, and others are killed.
# custom:
#   id: RES-01
#   severity: medium
deny_missing_memory_limit contains result if {
	some container in sized_containers
	not is_limited(container.spec)
	not is_limited(data.lib.workload.spec)
	result := data.lib.workload.flaw(
		container, "resources.limits.memory", null,
		"has no memory limit: set resources.limits.memory",
	)
}

# METADATA
# title: Requests for CPU and memory
# description: The scheduler considers only requests; a limit serves as the request if there is none.
# custom:
#   id: RES-02
#   severity: low
warn_missing_requests contains result if {
	some container in sized_containers
	missing := [resource |
		some resource in ["cpu", "memory"]
		not is_requested(container.spec, resource)
		not is_requested(data.lib.workload.spec, resource)
	]
	count(missing) > 0
	result := data.lib.workload.flaw(
		container, "resources.requests", missing,
		sprintf("has no request for %s: set resources.requests", [concat(" and ", missing)]),
	)
}

# Null means unset.
is_limited(spec) if spec.resources.limits.memory != null

is_requested(spec, resource) if spec.resources.requests[resource] != null

is_requested(spec, resource) if spec.resources.limits[resource] != null

# Ephemeral containers cannot have resources.
sized_containers := [container |
	some container in data.lib.workload.containers
	container.list != "ephemeralContainers"
]
