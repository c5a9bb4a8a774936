# METADATA
# title: Resources
# description: |
#   What a container requests and its limits. Values set for the pod apply to each container. Left out are ephemeral
#   containers, and init containers unless they are sidecars (`restartPolicy: Always`).
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/
package resources

# METADATA
# title: No memory limit
# description: |
#   Without a memory limit, one container can exhaust the memory of its node, and others are killed. The severity is info if
#   a LimitRange sets a limit in the pods of a workload; where LimitRanges cannot be read, they count as if there were none.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/configure-pod-container/assign-memory-resource/
# custom:
#   id: RES-01
#   severity: medium
#   frameworks: {nsa-1.2: [resource-policies]}
#   lookups: optional
deny_missing_memory_limit contains result if {
	some container in data.lib.workload.main_containers
	not data.lib.resources.is_limited(container.spec, "memory")
	not data.lib.resources.is_limited(data.lib.workload.spec, "memory")
	result := memory_flaw(container)
}

# METADATA
# title: No requests for CPU and memory
# description: |
#   The scheduler considers only requests; a limit serves as the request if there is none. The severity is info if a
#   LimitRange sets the requests in the pods of a workload; where LimitRanges cannot be read, they count as if there were none.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#requests-and-limits
# custom:
#   id: RES-02
#   severity: low
#   frameworks: {nsa-1.2: [resource-policies]}
#   lookups: optional
warn_missing_requests contains result if {
	some container in data.lib.workload.main_containers
	missing := [resource |
		some resource in ["cpu", "memory"]
		not data.lib.resources.is_requested(container.spec, resource)
		not data.lib.resources.is_requested(data.lib.workload.spec, resource)
	]
	count(missing) > 0
	result := request_flaw(container, missing, [resource | some resource in missing; not resource in data.lib.resources.default_requests])
}

memory_flaw(container) := data.lib.workload.flaw(
	container, "resources.limits.memory", null,
	"has no memory limit: set resources.limits.memory",
) if {
	not "memory" in data.lib.resources.default_limits
}

memory_flaw(container) := object.union(
	data.lib.workload.flaw(
		container, "resources.limits.memory", null,
		"has only the memory limit that a LimitRange sets: set resources.limits.memory",
	),
	{"severity": "info"},
) if {
	"memory" in data.lib.resources.default_limits
}

# `lacking` are those of the missing requests that no LimitRange sets either.
request_flaw(container, _, lacking) := data.lib.workload.flaw(
	container, "resources.requests", lacking,
	sprintf("has no request for %s: set resources.requests", [concat(" and ", lacking)]),
) if {
	count(lacking) > 0
}

request_flaw(container, missing, []) := object.union(
	data.lib.workload.flaw(
		container, "resources.requests", missing,
		sprintf("has only the request for %s that a LimitRange sets: set resources.requests", [concat(" and ", missing)]),
	),
	{"severity": "info"},
)
