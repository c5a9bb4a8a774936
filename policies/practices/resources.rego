# METADATA
# title: "Practices: resources"
# description: Limits that are contested. Off by default.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/
package practices.resources

# METADATA
# title: No CPU limit
# description: |
#   Without a limit, a container can use all idle CPU time of its node; with one, it is throttled even if nothing else needs the
#   time. Not reported if a LimitRange sets a limit, or for containers without resources of their own, as for RES-01.
# custom:
#   id: RES-03
#   severity: info
#   lookups: optional
#   frameworks: {nsa-1.2: [resource-policies]}
warn_missing_cpu_limit contains result if {
	some container in data.lib.workload.main_containers
	not data.lib.resources.is_limited(container.spec, "cpu")
	not data.lib.resources.is_limited(data.lib.workload.spec, "cpu")
	not "cpu" in data.lib.resources.default_limits
	result := data.lib.workload.flaw(
		container, "resources.limits.cpu", null,
		"has no CPU limit: set resources.limits.cpu",
	)
}
