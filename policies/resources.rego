# METADATA
# title: Resources
# description: What a container needs and what it may take at most. Numbers of the whole pod count for each container.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/
package resources

# METADATA
# title: Memory limit
# description: Without a memory limit one container can take its node's memory, and others are killed for it.
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
# description: The scheduler counts requests only; a limit stands in for a request that is not made.
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

# Null is as good as unset.
is_limited(spec) if spec.resources.limits.memory != null

is_requested(spec, resource) if spec.resources.requests[resource] != null

is_requested(spec, resource) if spec.resources.limits[resource] != null

# An ephemeral container can't have resources of its own.
sized_containers := [container |
	some container in data.lib.workload.containers
	container.list != "ephemeralContainers"
]
