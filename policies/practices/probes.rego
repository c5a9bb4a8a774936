# METADATA
# title: "Practices: probes"
# description: Liveness probes, and how they are set. Off by default, because the right values depend on the application.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/
package practices.probes

# METADATA
# title: No liveness probe
# description: |
#   Without one, a container that hangs is never restarted. Off by default: a probe that fails under load restarts containers
#   that work.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/#define-a-liveness-command
# custom:
#   id: PRB-02
#   severity: info
warn_missing_liveness contains result if {
	some container in data.lib.workload.lasting_containers
	object.get(container.spec, "livenessProbe", null) == null
	result := data.lib.workload.flaw(
		container, "livenessProbe", null,
		"has no liveness probe: set livenessProbe",
	)
}

# METADATA
# title: Identical probes
# description: |
#   If the liveness probe fails as soon as the readiness probe, a container under load is restarted instead of relieved. Not reported
#   if the liveness probe fails later, by its period and threshold.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/
# custom:
#   id: PRB-03
#   severity: low
warn_identical_probes contains result if {
	some container in data.lib.workload.containers
	liveness := container.spec.livenessProbe
	readiness := container.spec.readinessProbe
	handler(liveness) == handler(readiness)
	handler(liveness) != {}
	tolerance(liveness) <= tolerance(readiness)
	result := data.lib.workload.flaw(
		container, "livenessProbe", handler(liveness),
		"has the same liveness and readiness probe: raise livenessProbe.failureThreshold",
	)
}

handler(probe) := {type: probe[type] |
	some type in ["exec", "grpc", "httpGet", "tcpSocket"]
	probe[type] != null
}

# The seconds in which a probe has to fail. Null means unset.
tolerance(probe) := data.lib.selectors.given(probe, "periodSeconds", 10) * data.lib.selectors.given(probe, "failureThreshold", 3)
