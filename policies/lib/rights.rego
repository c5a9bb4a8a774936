# METADATA
# title: What the rules of a role allow
# description: Decides what a rule of a role allows, as the API server does. A rule has the form of `lib.rbac.rules_of`.
package lib.rights

read_verbs := {"get", "list", "watch"}

# METADATA
# description: |
#   Whether RBAC-01, RBAC-02 or RBAC-03 reports a rule about Kubernetes' own resources for a wildcard. Other rules do not repeat it.
is_wildcard(rule) if "*" in rule.verbs

is_wildcard(rule) if "*" in rule.resources

is_wildcard(rule) if {
	"*" in rule.apiGroups
	count(rule.verbs - read_verbs) > 0
}

# METADATA
# description: |
#   Rights from which others follow. A rule of a role has such a right if it allows one of the verbs on one of the resources of
#   one of the API groups. `may` completes a sentence about its subject; the strongest right has the lowest `rank`.
node_proxy := {
	"rank": 2,
	"may": "run commands on all nodes",
	"groups": {""},
	"resources": {"nodes/proxy", "*/proxy"},
	"verbs": {"create", "delete", "get", "patch", "update"},
}

account_tokens := {
	"rank": 3,
	"may": "create tokens of all ServiceAccounts",
	"groups": {""},
	"resources": {"serviceaccounts/token", "*/token"},
	"verbs": {"create"},
}

admission := {
	"rank": 4,
	"may": "change admission control",
	"groups": {"admissionregistration.k8s.io"},
	"resources": {
		"mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "mutatingwebhookconfigurations",
		"validatingadmissionpolicies", "validatingadmissionpolicybindings", "validatingwebhookconfigurations",
	},
	"verbs": {"create", "delete", "deletecollection", "patch", "update"},
}

signers := {
	"rank": 5,
	"may": "approve client certificates",
	"groups": {"certificates.k8s.io"},
	"resources": {"signers"},
	"verbs": {"approve", "sign"},
}

# Before Kubernetes 1.35, the verb get is enough for a connection by WebSocket.
pod_commands := {
	"rank": 6,
	"may": "run commands in all pods",
	"groups": {""},
	"resources": {"pods/attach", "pods/exec", "*/attach", "*/exec"},
	"verbs": {"create", "get"},
}

secrets := {
	"rank": 7,
	"may": "read all Secrets",
	"groups": {""},
	"resources": {"secrets"},
	"verbs": read_verbs,
}

# METADATA
# description: Whether a rule has a right on all objects, not only on those that it names.
grants(rule, right) if {
	count(rule.resourceNames) == 0
	allows(rule, right)
}

# METADATA
# description: Whether a rule has a right, if only on the objects that it names.
allows(rule, right) if {
	targets(rule, right.groups, right.resources)
	count(rule.verbs & (right.verbs | {"*"})) > 0
}

# METADATA
# description: Whether a rule allows approving or signing certificates that authenticate users or nodes.
approves_clients(rule) if grants(rule, signers)

approves_clients(rule) if {
	allows(rule, signers)
	count(rule.resourceNames & client_signers) > 0
}

client_signers := {"kubernetes.io/*", "kubernetes.io/kube-apiserver-client", "kubernetes.io/kube-apiserver-client-kubelet"}

# METADATA
# description: All rights of a rule from which others follow, by rank, as sentences about its subject.
powers(rule) := (({[0, "do everything"] | allows_everything([rule])} | {[1, "take all rights"] | takes_all_rights(rule)}) | {[signers.rank, signers.may] | approves_clients(rule)}) | {[right.rank, right.may] |
	some right in [node_proxy, account_tokens, admission, pod_commands, secrets]
	grants(rule, right)
}

takes_all_rights(rule) if {
	not has_weak_names(rule)
	some verb in {"bind", "escalate", "impersonate"}
	count(rule.verbs & {verb, "*"}) > 0
	takes_rights(rule, verb)
}

# METADATA
# description: Whether a rule is about one of these resources in one of these API groups.
targets(rule, groups, resources) if {
	count(rule.apiGroups & (groups | {"*"})) > 0
	count(rule.resources & (resources | {"*"})) > 0
}

# METADATA
# description: Whether one of the rules, as they are in a role or as `lib.rbac.rules_of` returns them, allows everything.
allows_everything(rules) if {
	some rule in rules
	"*" in rule.apiGroups
	"*" in rule.resources
	"*" in rule.verbs
}

# METADATA
# description: Whether a ClusterRole allows everything; false if it cannot be read.
is_full_cluster_role(name) if {
	some role in data.lib.neighbours.in_cluster("rbac.authorization.k8s.io/v1", "ClusterRole", name)
	allows_everything(role.rules)
}

# METADATA
# description: Whether a verb of a rule allows its subject to take rights that it does not have.
takes_rights(rule, "escalate") if targets(rule, {"rbac.authorization.k8s.io"}, {"clusterroles", "roles"})

takes_rights(rule, "bind") if {
	targets(rule, {"rbac.authorization.k8s.io"}, {"clusterroles", "roles"})
	not binds_weak_roles(rule)
}

takes_rights(rule, "impersonate") if targets(rule, {""}, {"groups", "serviceaccounts", "users"})

takes_rights(rule, "impersonate") if {
	targets(rule, {"authentication.k8s.io"}, {"uids"} | {resource | some resource in rule.resources; startswith(resource, "userextras")})
}

binds_weak_roles(rule) if {
	has_weak_names(rule)
	every name in rule.resourceNames {
		not is_full_cluster_role(name)
	}
}

# METADATA
# description: Whether a rule names objects, and none that has all rights by its name.
has_weak_names(rule) if {
	count(rule.resourceNames) > 0
	every name in rule.resourceNames {
		not name in {"admin", "cluster-admin", "edit"}
		not startswith(name, "system:")
	}
}
