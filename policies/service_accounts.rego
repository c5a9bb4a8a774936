# METADATA
# title: Service accounts
# description: The identity of a pod for the API server.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/
package service_accounts

import data.lib.accounts
import data.lib.neighbours
import data.lib.rbac
import data.lib.rights

# METADATA
# title: Token of the default ServiceAccount
# description: |
#   A permission granted to the default ServiceAccount is granted to every pod of the namespace that has its token. Not
#   reported if that ServiceAccount disables the token; where ServiceAccounts cannot be read, it counts as if it did not.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/#opt-out-of-api-credential-automounting
# custom:
#   id: SA-01
#   severity: low
#   frameworks: {cis-1.12: ["5.1.5", "5.1.6"], nsa-1.2: [tokens]}
#   lookups: optional
warn_default_token contains result if {
	spec := data.lib.workload.spec
	accounts.name(spec) == "default"
	gets_token(spec)
	result := data.lib.workload.pod_flaw(
		"automountServiceAccountToken", accounts.automount(spec),
		"pod has a token of the default ServiceAccount: set automountServiceAccountToken: false or a serviceAccountName",
	)
}

# METADATA
# title: Pods with rights over the cluster
# description: |
#   An attacker in such a pod has the rights of its token in the whole cluster. Reported is a pod with a token whose
#   ServiceAccount has one of the rights of RBAC-08 to RBAC-13, may escalate, or has all rights, by a ClusterRoleBinding. Where
#   ClusterRoles cannot be read, only the names of built-in ones count.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/security/rbac-good-practices/#minimize-distribution-of-privileged-tokens
# custom:
#   id: SA-02
#   severity: high
#   frameworks: {cis-1.12: ["5.1.1"], nsa-1.2: [rbac, tokens]}
#   lookups: optional
deny_powerful_pod contains result if {
	not data.lib.workload.is_generated
	spec := data.lib.workload.spec
	holds_token(spec)
	account := accounts.name(spec)
	[_, may, role] := min({power | some role in cluster_roles(account); some power in powers(role)})
	found := data.lib.workload.pod_flaw(
		"serviceAccountName", account,
		sprintf("pod may %s by ClusterRole \"%s\": reduce the role, or mount no token", [may, role]),
	)
	result := object.union(found, {"details": {"role": role}})
}

holds_token(spec) if gets_token(spec)

holds_token(_) if accounts.mounts_token

# Neither the pod nor its ServiceAccount disables the token.
gets_token(spec) if {
	not spec.automountServiceAccountToken == false
	not accounts.is_disabled_by_account(spec)
	not data.lib.workload.is_static
}

# The ClusterRoles that a ServiceAccount of the input's namespace has in the whole cluster. This is evaluated for every pod, so
# it compares the name first, and reads only the roles that it finds.
cluster_roles(account) := {binding.roleRef.name |
	some binding in data.inventory.cluster["rbac.authorization.k8s.io/v1"].ClusterRoleBinding
	some subject in binding.subjects
	subject.name == account
	subject.kind == "ServiceAccount"
	is_own_namespace(subject)
}

# Manifests of a pod may leave the namespace out.
is_own_namespace(subject) if subject.namespace == input.metadata.namespace

is_own_namespace(_) if not input.metadata.namespace

# What a ClusterRole allows, with its rank and its name; the strongest right has the lowest rank.
powers(name) := {[rank, may, name] |
	some role in neighbours.in_cluster("rbac.authorization.k8s.io/v1", "ClusterRole", name)
	some rule in rbac.rules_of(role)
	some [rank, may] in rights.powers(rule)
} | {[rank, may, name] | [rank, may] := known[name]}

# Built-in roles, for manifests.
known := {
	"admin": [7, "read all Secrets"],
	"cluster-admin": [0, "do everything"],
	"edit": [7, "read all Secrets"],
}

# METADATA
# title: Unused token
# description: |
#   A token that grants nothing only serves an intruder. Reported is a ServiceAccount that no binding names, directly or by a
#   group, and whose token pods mount by default. Not reported are default ServiceAccounts (SA-01), and accounts that Vault,
#   OpenShift or a cloud knows, by their annotations or those of their pods.
# custom:
#   id: SA-03
#   severity: low
#   frameworks: {cis-1.12: ["5.1.6"], nsa-1.2: [tokens]}
#   lookups: complete
warn_unused_token contains result if {
	input.kind == "ServiceAccount"
	input.apiVersion == "v1"
	input.metadata.name != "default"
	not input.automountServiceAccountToken == false
	not is_identity(input.metadata)
	is_mounted
	not is_bound
	result := {
		"msg": "pods mount a token that has no rights: set automountServiceAccountToken: false",
		"details": {"field": "automountServiceAccountToken", "value": accounts.automount(input)},
	}
}

# Accounts and pods with these annotations are recognised elsewhere by their token.
is_identity(annotated) if {
	some key, _ in annotated.annotations
	some prefix in {
		"azure.workload.identity/", "eks.amazonaws.com/", "iam.gke.io/", "serviceaccounts.openshift.io/",
		"vault.hashicorp.com/",
	}
	startswith(key, prefix)
}

is_mounted if {
	some pod in users
	accounts.automount(pod.spec) == null
	every user in users {
		not is_identity(user)
	}
}

users := [pod |
	some pod in data.lib.pods.beside
	accounts.name(pod.spec) == input.metadata.name
]

is_bound if {
	some binding in neighbours.everywhere("rbac.authorization.k8s.io/v1", "ClusterRoleBinding")
	names_account(binding)
}

is_bound if {
	some binding in neighbours.everywhere("rbac.authorization.k8s.io/v1", "RoleBinding")
	names_account(binding)
}

# Whether a binding names the input, or a group of it. Groups have some roles in every cluster.
names_account(binding) if {
	some subject in binding.subjects
	subject.kind == "ServiceAccount"
	subject.name == input.metadata.name
	is_own_namespace(subject)
}

names_account(binding) if {
	some subject in binding.subjects
	subject.kind in {"Group", "User"}
	subject.name in own_names
	not [binding.roleRef.kind, binding.roleRef.name, subject.name] in rbac.public_roles
}

own_names := {"system:authenticated", "system:serviceaccounts"} | {name |
	namespace := input.metadata.namespace
	some name in [
		sprintf("system:serviceaccounts:%s", [namespace]),
		sprintf("system:serviceaccount:%s:%s", [namespace, input.metadata.name]),
	]
}
