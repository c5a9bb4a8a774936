# METADATA
# title: Labels
# description: The labels that each of our workloads must have.
package own.labels

# METADATA
# title: Label team
# description: The label names the team to contact about the workload.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/
# custom:
#   id: OWN-01
#   severity: low
warn_missing_team contains result if {
	input.kind in {"CronJob", "DaemonSet", "Deployment", "StatefulSet"}
	not input.metadata.labels.team
	result := {
		"msg": "no team is named: set the label team",
		"details": {"field": "metadata.labels.team"},
	}
}
