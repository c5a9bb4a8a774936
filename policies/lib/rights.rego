# METADATA
# title: What the rules of a role allow
# description: Decides what a rule of a role allows, as the API server does. A rule has the form of `lib.rbac.rules_of`.
package lib.rights

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
