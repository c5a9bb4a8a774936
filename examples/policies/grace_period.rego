# METADATA
# title: Stateful workloads get time to stop
# description: A check in the form of Trivy's library.
# custom:
#   id: STOP-01
#   severity: MEDIUM
#   recommended_action: Leave terminationGracePeriodSeconds out, or set it to the time that a clean stop needs.
#   input:
#     selector:
#     - type: kubernetes
#       subtypes:
#         - kind: statefulset
package user.grace_period

import rego.v1

deny contains res if {
	pod := input.spec.template.spec
	pod.terminationGracePeriodSeconds == 0
	msg := sprintf("pods of %s are killed without time to stop", [input.metadata.name])
	res := result.new(msg, pod)
}
