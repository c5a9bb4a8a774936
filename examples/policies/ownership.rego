# METADATA
# title: Deployments are owned by somebody
# custom: {id: OWN-01, severity: medium}
package ownership

deny contains msg if {
	input.kind == "Deployment"
	not input.metadata.labels.team
	msg := "set the label team"
}
