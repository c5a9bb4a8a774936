# METADATA
# title: RBAC
# description: Permissions that amount to all permissions, and permissions for everybody.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/security/rbac-good-practices/
package rbac

# METADATA
# title: Wildcard verbs
# description: The verb * includes escalate, bind, impersonate and verbs that are added in the future.
# custom:
#   id: RBAC-01
#   severity: high
deny_wildcard_verbs contains result if {
	some rule in rules
	"*" in rule.verbs
	result := flaw(rule, "verbs", rule.verbs, "allows every verb: list the verbs that are needed")
}

# METADATA
# title: Wildcard resources with write verbs
# description: Write access to all resources, including future ones, leads to all permissions.
# custom:
#   id: RBAC-02
#   severity: high
deny_wildcard_resources contains result if {
	some rule in rules
	count(rule.verbs - read_verbs) > 0
	fields := [field | some field in ["resources", "apiGroups"]; "*" in rule[field]]
	result := flaw(rule, fields[0], rule[fields[0]], sprintf("allows changes to all %s: list those that are needed", [concat(" of all ", fields)]))
}

# METADATA
# title: Wildcard resources with read verbs
# description: Read access to all resources of the core group includes all Secrets.
# custom:
#   id: RBAC-03
#   severity: medium
warn_wildcard_reads contains result if {
	some rule in rules
	"*" in rule.resources
	count(rule.apiGroups & {"", "*"}) > 0
	count(rule.verbs & read_verbs) > 0
	count(rule.verbs - read_verbs) == 0
	result := flaw(rule, "resources", rule.resources, "allows reading all resources, Secrets too: list those that are needed")
}

# METADATA
# title: Escalation
# description: With escalate, bind or impersonate, a subject can give itself any permission.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/security/rbac-good-practices/#privilege-escalation-risks
# custom:
#   id: RBAC-04
#   severity: high
deny_escalation contains result if {
	some rule in rules
	verbs := rule.verbs & {"bind", "escalate", "impersonate"}
	count(verbs) > 0
	result := flaw(rule, "verbs", verbs, sprintf("allows taking rights by %s: remove the verb", [concat(", ", sort(verbs))]))
}

# METADATA
# title: Binding to cluster-admin
# description: cluster-admin allows everything in the whole cluster, or in the namespace of the binding.
# custom:
#   id: RBAC-05
#   severity: high
deny_cluster_admin contains result if {
	is_binding
	input.roleRef.kind == "ClusterRole"
	input.roleRef.name == "cluster-admin"
	some subject in subjects
	not [subject.kind, subject.name] in administrators
	result := subject_flaw(subject, "has the role cluster-admin: bind a role with the rights that are needed")
}

# METADATA
# title: Rights for anonymous users
# description: Everybody who can reach the API server has these permissions, without credentials.
# custom:
#   id: RBAC-06
#   severity: critical
deny_anonymous contains result if {
	not is_cluster_info
	some subject in broad_subjects
	[subject.kind, subject.name] in {["Group", "system:unauthenticated"], ["User", "system:anonymous"]}
	result := subject_flaw(subject, "has the role without logging in: remove the subject")
}

# METADATA
# title: Rights for everybody
# description: Every user, or every pod with a token, has these permissions.
# custom:
#   id: RBAC-07
#   severity: high
deny_everybody contains result if {
	some subject in broad_subjects
	subject.kind == "Group"
	subject.name in {"system:authenticated", "system:serviceaccounts"}
	result := subject_flaw(subject, "is everybody: bind the users or service accounts that need the role")
}

versions := {"rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io/v1alpha1", "rbac.authorization.k8s.io/v1beta1"}

is_role if {
	input.kind in {"ClusterRole", "Role"}
	input.apiVersion in versions
	not is_builtin
}

# Created by the API server at startup. The label alone is not enough, since anybody can set it on a role.
is_builtin if {
	input.metadata.labels["kubernetes.io/bootstrapping"] == "rbac-defaults"
	is_builtin_name(input.metadata.name)
}

is_builtin_name(name) if name in {"admin", "cluster-admin", "edit", "view"}

is_builtin_name(name) if {
	is_string(name)
	startswith(name, "system:")
}

is_binding if {
	input.kind in {"ClusterRoleBinding", "RoleBinding"}
	input.apiVersion in versions
}

read_verbs := {"get", "list", "watch"}

rules := [rule |
	is_role
	item := input.rules[i]
	rule := {
		"index": i,
		"apiGroups": {group | group := item.apiGroups[_]},
		"resources": {resource | resource := item.resources[_]},
		"verbs": {verb | verb := item.verbs[_]},
	}
]

subjects := [subject |
	item := input.subjects[i]
	is_string(item.kind)
	subject := {"index": i, "kind": item.kind, "name": item.name}
]

# Members of these groups are administrators in any case.
administrators := {["Group", "kubeadm:cluster-admins"], ["Group", "system:masters"]}

# Roles that Kubernetes grants to everybody: information about the server and about one's own permissions.
public_roles := {
	["ClusterRole", "system:basic-user", "system:authenticated"],
	["ClusterRole", "system:discovery", "system:authenticated"],
	["ClusterRole", "system:public-info-viewer", "system:authenticated"],
	["ClusterRole", "system:public-info-viewer", "system:unauthenticated"],
	["ClusterRole", "system:service-account-issuer-discovery", "system:serviceaccounts"],
}

broad_subjects := [subject |
	is_binding
	kind := object.get(input, ["roleRef", "kind"], "")
	some subject in subjects
	not [kind, role_name, subject.name] in public_roles
]

# Where kubeadm publishes what a joining node needs before it has credentials.
is_cluster_info if {
	input.metadata.namespace == "kube-public"
	input.roleRef.kind == "Role"
	input.roleRef.name == "kubeadm:bootstrap-signer-clusterinfo"
}

role_name := object.get(input, ["roleRef", "name"], "")

flaw(rule, field, value, text) := {
	"msg": sprintf("rules[%d] %s", [rule.index, text]),
	"details": {"field": sprintf("rules[%d].%s", [rule.index, field]), "value": sort(value)},
}

subject_flaw(subject, text) := {
	"msg": sprintf("%s \"%s\" %s", [lower(subject.kind), subject.name, text]),
	"details": {
		"field": sprintf("subjects[%d]", [subject.index]),
		"value": subject.name,
		"role": role_name,
	},
}
