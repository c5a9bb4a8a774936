# METADATA
# title: Labels
# description: What every workload of ours has to say about itself.
package own.labels

# METADATA
# title: Label team
# description: Whoever finds something broken can see whom to ask.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/
# custom:
#   id: OWN-01
#   severity: low
warn_missing_team contains result if {
	input.kind in {"CronJob", "DaemonSet", "Deployment", "StatefulSet"}
	not input.metadata.labels.team
	result := {
		"msg": "nobody is named to ask about this: set the label team",
		"details": {"field": "metadata.labels.team"},
	}
}
