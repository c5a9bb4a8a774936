# METADATA
# title: Probes
# description: How the kubelet knows whether a long-running container works.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/
package probes

# METADATA
# title: No readiness probe
# description: |
#   Without one, a Service sends requests to a container that cannot answer yet, also during each rollout. Not reported for pods
#   that no Service in the namespace selects.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/#define-readiness-probes
# custom:
#   id: PRB-01
#   severity: low
warn_missing_readiness contains result if {
	some container in data.lib.workload.lasting_containers
	object.get(container.spec, "readinessProbe", null) == null
	data.lib.services.select_pod
	result := data.lib.workload.flaw(
		container, "readinessProbe", null,
		"has no readiness probe: set readinessProbe",
	)
}
