# METADATA
# title: RBAC
# description: Permissions that amount to all permissions, and permissions for everybody.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/security/rbac-good-practices/
package rbac

# METADATA
# title: Wildcard verbs
# description: |
#   The verb * includes escalate, bind, impersonate and verbs that are added in the future. In API groups that grant no rights
#   over workloads or the cluster the severity is low.
# custom:
#   id: RBAC-01
#   severity: high
deny_wildcard_verbs contains result if {
	some rule in rules
	"*" in rule.verbs

	# The other rule reports both.
	not has_wildcard_target(rule)
	result := graded(rule, flaw(rule, "verbs", rule.verbs, sprintf("allows every verb%s: list the verbs that are needed", [in_groups(rule)])))
}

# METADATA
# title: Wildcard resources with write verbs
# description: |
#   Write access to all resources, including future ones, leads to all permissions. In API groups that grant no rights over
#   workloads or the cluster the severity is low.
# custom:
#   id: RBAC-02
#   severity: high
deny_wildcard_resources contains result if {
	some rule in rules
	count(rule.verbs - read_verbs) > 0
	has_wildcard_target(rule)
	fields := [field | some field in ["resources", "apiGroups"]; "*" in rule[field]]
	text := sprintf("allows %s %s%s: list those that are needed", [changes(rule), concat(" of all ", fields), in_groups(rule)])
	result := graded(rule, flaw(rule, fields[0], rule[fields[0]], text))
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
# description: |
#   With escalate, bind or impersonate, a subject can give itself any permission. The right to bind named roles that grant
#   little is the recommended form and is not reported; the right to impersonate named users has a low severity. Where
#   ClusterRoles cannot be read, the name alone decides what a role grants.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/security/rbac-good-practices/#privilege-escalation-risks
# custom:
#   id: RBAC-04
#   severity: high
#   lookups: optional
deny_escalation contains result if {
	some rule in rules
	verbs := {verb | some verb in rule.verbs; takes_rights(rule, verb)}
	count(verbs) > 0
	found := flaw(rule, "verbs", verbs, sprintf("allows taking rights by %s: remove the verb", [concat(", ", sort(verbs))]))
	result := object.union(found, escalation_severity(rule, verbs))
}

takes_rights(rule, "escalate") if targets(rule, {"rbac.authorization.k8s.io"}, {"clusterroles", "roles"})

takes_rights(rule, "bind") if {
	targets(rule, {"rbac.authorization.k8s.io"}, {"clusterroles", "roles"})
	not binds_weak_roles(rule)
}

takes_rights(rule, "impersonate") if targets(rule, {""}, {"groups", "serviceaccounts", "users"})

takes_rights(rule, "impersonate") if {
	targets(rule, {"authentication.k8s.io"}, {"uids"} | {resource | some resource in rule.resources; startswith(resource, "userextras")})
}

targets(rule, groups, resources) if {
	count(rule.apiGroups & (groups | {"*"})) > 0
	count(rule.resources & (resources | {"*"})) > 0
}

binds_weak_roles(rule) if {
	has_weak_names(rule)
	every name in rule.resourceNames {
		not is_full_cluster_role(name)
	}
}

is_full_cluster_role(name) if {
	some role in data.lib.neighbours.in_cluster("rbac.authorization.k8s.io/v1", "ClusterRole", name)
	allows_everything(role.rules)
}

# Only roles that are named, and none that amounts to all rights.
has_weak_names(rule) if {
	count(rule.resourceNames) > 0
	every name in rule.resourceNames {
		not name in {"admin", "cluster-admin", "edit"}
		not startswith(name, "system:")
	}
}

escalation_severity(rule, verbs) := {"severity": "low"} if is_narrow_impersonation(rule, verbs)

escalation_severity(rule, verbs) := {} if not is_narrow_impersonation(rule, verbs)

is_narrow_impersonation(rule, verbs) if {
	verbs == {"impersonate"}
	has_weak_names(rule)
}

# METADATA
# title: Binding to cluster-admin
# description: |
#   cluster-admin allows everything in the whole cluster, or in the namespace of the binding, and so does a ClusterRole with
#   the wildcard for API groups, resources and verbs. Where ClusterRoles cannot be read, only the name counts.
# custom:
#   id: RBAC-05
#   severity: high
#   lookups: optional
deny_cluster_admin contains result if {
	is_binding
	some subject in subjects
	not [subject.kind, subject.name] in administrators
	result := subject_flaw(subject, sprintf("has %s: bind a role with the rights that are needed", [full_rights]))
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
# description: |
#   Every user, or every pod with a token, has these permissions. For the pods of one namespace the severity is low, unless
#   the role is admin, edit or one that allows everything; where roles cannot be read, only the name counts.
# custom:
#   id: RBAC-07
#   severity: high
#   lookups: optional
deny_everybody contains result if {
	some subject in broad_subjects
	subject.kind == "Group"
	result := everybody_flaw(subject)
}

everybody_flaw(subject) := subject_flaw(subject, "is everybody: bind the users or service accounts that need the role") if {
	subject.name in {"system:authenticated", "system:serviceaccounts"}
}

everybody_flaw(subject) := object.union(found, namespace_severity) if {
	is_string(subject.name)
	namespace := trim_prefix(subject.name, "system:serviceaccounts:")
	namespace != subject.name
	not is_image_puller
	text := sprintf("is every pod of namespace %s with a token: bind the service accounts that need the role", [namespace])
	found := subject_flaw(subject, text)
}

namespace_severity := {} if is_strong_role

namespace_severity := {"severity": "low"} if not is_strong_role

is_strong_role if full_rights

is_strong_role if {
	input.roleRef.kind == "Role"
	allows_everything(data.lib.neighbours.in_namespace("rbac.authorization.k8s.io/v1", "Role")[role_name].rules)
}

is_strong_role if {
	input.roleRef.kind == "ClusterRole"
	role_name in {"admin", "edit"}
}

# OpenShift creates this binding in every namespace.
is_image_puller if {
	input.roleRef.kind == "ClusterRole"
	role_name == "system:image-puller"
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
		"resourceNames": {name | name := item.resourceNames[_]; is_string(name)},
	}
]

has_wildcard_target(rule) if "*" in rule.resources

has_wildcard_target(rule) if "*" in rule.apiGroups

changes(rule) := "everything on all" if "*" in rule.verbs

changes(rule) := "changes to all" if not "*" in rule.verbs

# API groups whose objects run code, grant rights or decide about requests: webhooks decide about requests and convert objects,
# an APIService names the server that answers them, and an approved certificate signing request makes its author any user.
powerful_groups := {
	"",
	"*",
	"admissionregistration.k8s.io",
	"apiextensions.k8s.io",
	"apiregistration.k8s.io",
	"apps",
	"batch",
	"certificates.k8s.io",
	"rbac.authorization.k8s.io",
}

is_minor(rule) if {
	count(rule.apiGroups) > 0
	count(rule.apiGroups & powerful_groups) == 0
}

in_groups(rule) := sprintf(" of API group %s", [concat(", ", sort(rule.apiGroups))]) if is_minor(rule)

in_groups(rule) := "" if not is_minor(rule)

graded(rule, found) := object.union(found, {"severity": "low"}) if is_minor(rule)

graded(rule, found) := found if not is_minor(rule)

# What a binding grants if it grants everything.
full_rights := "the role cluster-admin" if {
	input.roleRef.kind == "ClusterRole"
	role_name == "cluster-admin"
} else := sprintf("all rights by the ClusterRole %s", [role_name]) if {
	input.roleRef.kind == "ClusterRole"
	is_full_cluster_role(role_name)
}

allows_everything(rules) if {
	some rule in rules
	"*" in rule.apiGroups
	"*" in rule.resources
	"*" in rule.verbs
}

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
