# METADATA
# title: Access to workloads, roles and volumes
# description: |
#   Rights that many controllers and delivery tools need, and that lead to others. Off by default, because a cluster has many such
#   roles on purpose. As in the part rbac_access, a role is reported if a binding grants it.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/security/rbac-good-practices/#privilege-escalation-risks
package practices.rbac_access

import data.lib.rbac
import data.lib.rights

# METADATA
# title: Creating or changing workloads
# description: |
#   A subject that can create pods, or change the template of a workload, can use every Secret, ServiceAccount and volume of the
#   namespace in them.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/security/rbac-good-practices/#workload-creation
# custom:
#   id: RBAC-17
#   severity: low
#   frameworks: {cis-1.12: ["5.1.4"], nsa-1.2: [rbac]}
warn_workload_creation contains result if {
	some rule in rbac.named_rules
	found := {resource |
		some right in workloads
		rights.grants(rule, right)
		some resource in (rule.resources & right.resources)
	}
	count(found) > 0
	change := sprintf("remove %s", [concat(", ", sort(found))])
	result := rbac.holder_flaw(rule, rbac.widest_holders, "run pods with any Secret or account", change)
}

workloads := {
	# The ServiceAccount and the volumes of a pod never change, nor does the template of a Job.
	{"groups": {""}, "resources": {"pods"}, "verbs": {"create"}},
	{"groups": {""}, "resources": {"replicationcontrollers"}, "verbs": template_verbs},
	{"groups": {"apps"}, "resources": {"daemonsets", "deployments", "replicasets", "statefulsets"}, "verbs": template_verbs},
	{"groups": {"batch"}, "resources": {"jobs"}, "verbs": {"create"}},
	{"groups": {"batch"}, "resources": {"cronjobs"}, "verbs": template_verbs},
}

template_verbs := {"create", "patch", "update"}

# METADATA
# title: Writing roles and bindings
# description: |
#   The API server limits roles and bindings to rights that their author has, but the author can pass these on to others, and
#   keep them. Rules with the verbs bind and escalate are reported by RBAC-04.
# related_resources:
# - ref: https://kubernetes.io/docs/reference/access-authn-authz/rbac/#privilege-escalation-prevention-and-bootstrapping
# custom:
#   id: RBAC-18
#   severity: medium
#   frameworks: {cis-1.12: ["5.1.8"], nsa-1.2: [rbac]}
deny_role_changes contains result if {
	some rule in rbac.named_rules
	rights.grants(rule, role_changes)
	not is_escalation(rule)
	change := sprintf("remove %s", [concat(", ", sort(rule.verbs & role_changes.verbs))])
	result := rbac.holder_flaw(rule, rbac.widest_holders, "pass on rights", change)
}

role_changes := {
	"groups": {"rbac.authorization.k8s.io"},
	"resources": {"clusterrolebindings", "clusterroles", "rolebindings", "roles"},
	"verbs": {"create", "patch", "update"},
}

is_escalation(rule) if {
	some verb in rule.verbs
	rights.takes_rights(rule, verb)
}

# METADATA
# title: Creating PersistentVolumes
# description: |
#   A PersistentVolume can be a directory of a node, which Pod Security Standards forbid in pods. Provisioners of volumes need
#   this right.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/security/rbac-good-practices/#persistent-volume-creation
# custom:
#   id: RBAC-19
#   severity: medium
#   frameworks: {cis-1.12: ["5.1.9"], nsa-1.2: [host-paths, rbac]}
deny_volume_creation contains result if {
	some rule in rbac.named_rules
	rights.grants(rule, {"groups": {""}, "resources": {"persistentvolumes"}, "verbs": {"create"}})
	result := rbac.holder_flaw(rule, rbac.cluster_holders, "mount any path of a node", "remove persistentvolumes")
}
