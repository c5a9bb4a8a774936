# METADATA
# title: Probes
# description: How the kubelet knows whether a long-running container works.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/
package probes

# METADATA
# title: No readiness probe
# description: |
#   Without one, traffic arrives and rollouts continue before the container can answer. The severity is info where no
#   Service in the namespace selects the pod, or Services cannot be read.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/#define-readiness-probes
# custom:
#   id: PRB-01
#   severity: low
#   lookups: optional
warn_missing_readiness contains result if {
	some container in lasting_containers
	object.get(container.spec, "readinessProbe", null) == null
	result := graded(data.lib.workload.flaw(
		container, "readinessProbe", null,
		"has no readiness probe: set readinessProbe",
	))
}

# METADATA
# title: No liveness probe
# description: Without one, a container that hangs is never restarted.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/#define-a-liveness-command
# custom:
#   id: PRB-02
#   severity: info
warn_missing_liveness contains result if {
	some container in lasting_containers
	object.get(container.spec, "livenessProbe", null) == null
	result := data.lib.workload.flaw(
		container, "livenessProbe", null,
		"has no liveness probe: set livenessProbe",
	)
}

graded(found) := found if data.lib.services.select_pod

graded(found) := object.union(found, {"severity": "info"}) if not data.lib.services.select_pod

lasting_containers := [container |
	is_lasting
	some container in data.lib.workload.containers
	container.list == "containers"
]

lasting_kinds := {"DaemonSet", "Deployment", "ReplicaSet", "ReplicationController", "StatefulSet"}

is_lasting if input.kind in lasting_kinds

# A pod that is expected to end has a restart policy other than the default.
is_lasting if {
	input.kind == "Pod"
	object.get(input, ["spec", "restartPolicy"], "Always") == "Always"
}
