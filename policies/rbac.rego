# METADATA
# title: RBAC
# description: Permissions that amount to all permissions, and permissions for everybody.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/security/rbac-good-practices/
package rbac

import data.lib.rbac as lib
import data.lib.rights

# METADATA
# title: Wildcard verbs
# description: |
#   The verb * includes escalate, bind, impersonate and verbs that are added in the future. The severity is medium in a Role,
#   unless the rule is about roles, and low for URLs that are no resources and in API groups that grant no rights over workloads
#   or the cluster.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/security/rbac-good-practices/#least-privilege
# custom:
#   id: RBAC-01
#   severity: high
#   frameworks: {cis-1.12: ["5.1.3"], nsa-1.2: [rbac]}
deny_wildcard_verbs contains result if {
	some rule in lib.rules
	"*" in rule.verbs

	# The other rule reports both.
	not has_wildcard_target(rule)
	found := lib.rule_flaw(rule, "verbs", rule.verbs, sprintf("allows every verb%s: list the verbs that are needed", [in_groups(rule)]))
	result := graded(rule, in_namespace(rule, found))
}

# METADATA
# title: Wildcard resources with write verbs
# description: |
#   Write access to all resources, including future ones, leads to all permissions. In API groups that grant no rights over
#   workloads or the cluster the severity is low.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/security/rbac-good-practices/#least-privilege
# custom:
#   id: RBAC-02
#   severity: high
#   frameworks: {cis-1.12: ["5.1.3"], nsa-1.2: [rbac]}
deny_wildcard_resources contains result if {
	some rule in lib.rules
	count(rule.verbs - rights.read_verbs) > 0
	fields := [field | some field in ["resources", "apiGroups"]; "*" in rule[field]]
	text := sprintf("allows %s %s%s: list those that are needed", [changes(rule), concat(" of all ", fields), in_groups(rule)])
	result := graded(rule, lib.rule_flaw(rule, fields[0], rule[fields[0]], text))
}

# METADATA
# title: Wildcard resources with read verbs
# description: Read access to all resources of the core group includes all Secrets.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/security/rbac-good-practices/#listing-secrets
# custom:
#   id: RBAC-03
#   severity: medium
#   frameworks: {cis-1.12: ["5.1.2", "5.1.3"], nsa-1.2: [rbac, secrets]}
warn_wildcard_reads contains result if {
	some rule in lib.rules
	"*" in rule.resources
	count(rule.apiGroups & {"", "*"}) > 0
	count(rule.verbs & rights.read_verbs) > 0
	count(rule.verbs - rights.read_verbs) == 0
	result := lib.rule_flaw(rule, "resources", rule.resources, "allows reading all resources, Secrets too: list those that are needed")
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
#   frameworks: {cis-1.12: ["5.1.8"], nsa-1.2: [rbac]}
#   lookups: optional
deny_escalation contains result if {
	some rule in lib.rules
	verbs := {verb | some verb in rule.verbs; rights.takes_rights(rule, verb)}
	count(verbs) > 0
	found := lib.rule_flaw(rule, "verbs", verbs, sprintf("allows privilege escalation (verb %s): remove the verb", [concat(", ", sort(verbs))]))
	result := object.union(found, escalation_severity(rule, verbs))
}

escalation_severity(rule, verbs) := {"severity": "low"} if is_narrow_impersonation(rule, verbs)

escalation_severity(rule, verbs) := {} if not is_narrow_impersonation(rule, verbs)

is_narrow_impersonation(rule, verbs) if {
	verbs == {"impersonate"}
	rights.has_weak_names(rule)
}

# METADATA
# title: Binding to cluster-admin
# description: |
#   cluster-admin allows everything in the whole cluster, or in the namespace of the binding, and so does a ClusterRole with
#   the wildcard for API groups, resources and verbs. Where ClusterRoles cannot be read, only the name counts.
# related_resources:
# - ref: https://kubernetes.io/docs/reference/access-authn-authz/rbac/#user-facing-roles
# custom:
#   id: RBAC-05
#   severity: high
#   frameworks: {cis-1.12: ["5.1.1"], nsa-1.2: [rbac]}
#   lookups: optional
deny_cluster_admin contains result if {
	lib.is_binding
	some subject in lib.subjects
	not [subject.kind, subject.name] in administrators
	result := lib.subject_flaw(subject, sprintf("has %s: bind a smaller role", [full_rights]))
}

# METADATA
# title: Rights for anonymous users
# description: Everybody who can reach the API server has these permissions, without credentials.
# related_resources:
# - ref: https://kubernetes.io/docs/reference/access-authn-authz/authentication/#anonymous-requests
# custom:
#   id: RBAC-06
#   severity: critical
#   frameworks: {nsa-1.2: [anonymous, rbac]}
deny_anonymous contains result if {
	not is_cluster_info
	some subject in broad_subjects
	[subject.kind, subject.name] in {["Group", "system:unauthenticated"], ["User", "system:anonymous"]}
	result := lib.subject_flaw(subject, "has the role without logging in: remove the subject")
}

# METADATA
# title: Rights for everybody
# description: |
#   Every user, or every pod with a token, has these permissions. For the pods of one namespace the severity is low, unless
#   the role is admin, edit or one that allows everything; where roles cannot be read, only the name counts.
# related_resources:
# - ref: https://kubernetes.io/docs/reference/access-authn-authz/rbac/#default-roles-and-role-bindings
# custom:
#   id: RBAC-07
#   severity: high
#   frameworks: {nsa-1.2: [rbac]}
#   lookups: optional
deny_everybody contains result if {
	some subject in broad_subjects
	subject.kind == "Group"
	result := everybody_flaw(subject)
}

everybody_flaw(subject) := lib.subject_flaw(
	subject,
	sprintf("includes %s: bind the users or service accounts that need the role", [members[subject.name]]),
)

everybody_flaw(subject) := object.union(found, severity_of_weak("low")) if {
	is_string(subject.name)
	namespace := trim_prefix(subject.name, "system:serviceaccounts:")
	namespace != subject.name
	not is_image_puller
	found := lib.subject_flaw(subject, "includes every pod with a token there: bind the service accounts that need the role")
}

members := {
	"system:authenticated": "every authenticated user",
	"system:serviceaccounts": "every service account",
}

severity_of_weak(_) := {} if is_strong_role

severity_of_weak(severity) := {"severity": severity} if not is_strong_role

is_strong_role if full_rights

is_strong_role if {
	input.roleRef.kind == "Role"
	rights.allows_everything(data.lib.neighbours.in_namespace("rbac.authorization.k8s.io/v1", "Role")[lib.role_name].rules)
}

is_strong_role if {
	input.roleRef.kind == "ClusterRole"
	lib.role_name in {"admin", "edit"}
}

# OpenShift creates this binding in every namespace.
is_image_puller if {
	input.roleRef.kind == "ClusterRole"
	lib.role_name == "system:image-puller"
}

# METADATA
# title: Group system:masters
# description: |
#   Members of this group bypass authorization: neither a role nor a webhook can limit them, and their certificates cannot be
#   revoked. A binding for it grants nothing more, and shows that the group is used.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/security/rbac-good-practices/#least-privilege
# custom:
#   id: RBAC-14
#   severity: medium
#   frameworks: {cis-1.12: ["5.1.7"], nsa-1.2: [rbac]}
deny_masters_group contains result if {
	lib.is_binding
	not lib.is_builtin
	some subject in lib.subjects
	[subject.kind, subject.name] == ["Group", "system:masters"]
	result := lib.subject_flaw(subject, "bypasses authorization and cannot be revoked: bind a group of your own")
}

# METADATA
# title: Rights of the default ServiceAccount
# description: |
#   Every pod of the namespace that names no ServiceAccount has these rights. The severity is medium unless the role is admin,
#   edit or one that allows everything; where roles cannot be read, only the name counts.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/
# custom:
#   id: RBAC-15
#   severity: high
#   frameworks: {cis-1.12: ["5.1.5"], nsa-1.2: [rbac]}
#   lookups: optional
deny_default_account contains result if {
	lib.is_binding
	not lib.is_builtin
	some subject in lib.subjects
	[subject.kind, subject.name] == ["ServiceAccount", "default"]
	text := "lends the role to every pod without an account of its own: create a ServiceAccount"
	result := object.union(lib.subject_flaw(subject, text), severity_of_weak("medium"))
}

# METADATA
# scope: document
# title: Binding without effect
# description: |
#   A binding to a role, or for a ServiceAccount, that does not exist grants nothing, until somebody creates one of that name.
#   Roles that exist in every cluster, and default ServiceAccounts, are not looked up.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/security/rbac-good-practices/#periodic-review
# custom:
#   id: RBAC-16
#   severity: medium
#   frameworks: {nsa-1.2: [rbac]}
#   lookups: complete
deny_missing_reference contains result if {
	lib.is_binding
	not lib.is_builtin
	is_missing_role(input.roleRef)
	result := {
		"msg": sprintf("%s \"%s\" does not exist: create it, or delete the binding", [lower(input.roleRef.kind), lib.role_name]),
		"details": {"field": "roleRef.name", "value": lib.role_name},
	}
}

deny_missing_reference contains result if {
	lib.is_binding
	not lib.is_builtin
	some subject in lib.subjects
	subject.kind == "ServiceAccount"
	subject.name != "default"
	not has_account(subject.namespace, subject.name)
	result := lib.subject_flaw(subject, sprintf("does not exist in namespace %s: create it, or remove the subject", [subject.namespace]))
}

is_missing_role(role) if {
	role.kind == "ClusterRole"
	not lib.is_builtin_name(role.name)
	count(data.lib.neighbours.in_cluster("rbac.authorization.k8s.io/v1", "ClusterRole", role.name)) == 0
}

is_missing_role(role) if {
	role.kind == "Role"
	not lib.is_builtin_name(role.name)
	role.name != "extension-apiserver-authentication-reader"
	not data.lib.neighbours.is_beside("rbac.authorization.k8s.io/v1", "Role", role.name)
}

has_account(namespace, name) if data.lib.neighbours.of_namespace(namespace, "v1", "ServiceAccount")[name]

# Manifests of a ServiceAccount may leave the namespace out, those of a binding for it may not.
has_account(_, name) if {
	account := data.lib.neighbours.of_namespace("", "v1", "ServiceAccount")[name]
	not account.metadata.namespace
}

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

# A rule without API groups is about URLs such as /healthz.
is_minor(rule) if count(rule.apiGroups & powerful_groups) == 0

in_groups(rule) := "" if not is_minor(rule)

in_groups(rule) := " of nonResourceURLs" if count(rule.apiGroups) == 0

# Undefined for a rule without API groups.
in_groups(rule) := sprintf(" of API group %s%s", [sort(rule.apiGroups)[0], others(count(rule.apiGroups) - 1)]) if {
	is_minor(rule)
}

others(0) := ""

others(1) := " and another"

others(more) := sprintf(" and %d others", [more]) if more > 1

# Rights over the roles of a namespace are all rights there.
in_namespace(rule, found) := object.union(found, {"severity": "medium"}) if {
	input.kind == "Role"
	not "rbac.authorization.k8s.io" in rule.apiGroups
} else := found

graded(rule, found) := object.union(found, {"severity": "low"}) if is_minor(rule)

graded(rule, found) := found if not is_minor(rule)

# What a binding grants if it grants everything.
full_rights := "the role cluster-admin" if {
	input.roleRef.kind == "ClusterRole"
	lib.role_name == "cluster-admin"
} else := sprintf("all rights by the ClusterRole %s", [lib.role_name]) if {
	input.roleRef.kind == "ClusterRole"
	rights.is_full_cluster_role(lib.role_name)
}

# Members of these groups are administrators in any case.
administrators := {["Group", "kubeadm:cluster-admins"], ["Group", "system:masters"]}

broad_subjects := [subject |
	lib.is_binding
	some subject in lib.subjects
	not [input.roleRef.kind, lib.role_name, subject.name] in lib.public_roles
]

# Where kubeadm publishes what a joining node needs before it has credentials.
is_cluster_info if {
	input.metadata.namespace == "kube-public"
	input.roleRef.kind == "Role"
	input.roleRef.name == "kubeadm:bootstrap-signer-clusterinfo"
}
