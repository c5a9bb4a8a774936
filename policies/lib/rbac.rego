# METADATA
# title: Roles and bindings
# description: Reads the rules of roles and the subjects of bindings, and builds results about both.
package lib.rbac

versions := {"rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io/v1alpha1", "rbac.authorization.k8s.io/v1beta1"}

# METADATA
# description: Whether the input is a role that the API server did not create.
is_role if {
	input.kind in {"ClusterRole", "Role"}
	input.apiVersion in versions
	not is_builtin
}

is_binding if {
	input.kind in {"ClusterRoleBinding", "RoleBinding"}
	input.apiVersion in versions
}

# METADATA
# description: |
#   Whether the API server created the role or binding at startup. The label alone is not enough, since anybody can set it on a
#   role.
is_builtin if {
	input.metadata.labels["kubernetes.io/bootstrapping"] == "rbac-defaults"
	is_builtin_name(input.metadata.name)
}

is_builtin_name(name) if name in {"admin", "cluster-admin", "edit", "view"}

is_builtin_name(name) if {
	is_string(name)
	startswith(name, "system:")
}

# METADATA
# description: The rules of the input, if it is a role.
rules := [rule | is_role; some rule in rules_of(input)]

# METADATA
# description: The rules of the input that RBAC-01, RBAC-02 and RBAC-03 do not report for a wildcard.
named_rules := [rule |
	some rule in rules
	not data.lib.rights.is_wildcard(rule)
]

# METADATA
# description: The rules of a role, with their indices; the other values are sets.
rules_of(role) := [rule |
	item := role.rules[i]
	rule := {
		"index": i,
		"apiGroups": {group | group := item.apiGroups[_]},
		"resources": {resource | resource := item.resources[_]},
		"verbs": {verb | verb := item.verbs[_]},
		"resourceNames": {name | name := item.resourceNames[_]; is_string(name)},
	}
]

# METADATA
# description: The subjects of the input, with their indices.
subjects := [subject |
	item := input.subjects[i]
	is_string(item.kind)
	subject := {"index": i, "kind": item.kind, "name": item.name, "namespace": namespace_of(item, input)}
]

# Every binding in a cluster states the namespace of a ServiceAccount; in manifests it may be left out.
namespace_of(subject, binding) := subject.namespace if {
	is_string(subject.namespace)
} else := object.get(binding, ["metadata", "namespace"], "")

# METADATA
# description: The name of the role that the input binds.
role_name := object.get(input, ["roleRef", "name"], "")

# METADATA
# description: |
#   The subjects that have the input, a role, in the whole cluster. Those of the control plane do not count, here and in
#   `namespace_holders`.
cluster_holders := {holder |
	input.kind == "ClusterRole"
	some binding in data.lib.neighbours.everywhere("rbac.authorization.k8s.io/v1", "ClusterRoleBinding")
	some holder in holders(binding)
}

# METADATA
# description: The subjects that have the input, a role, in single namespaces.
namespace_holders := {holder |
	some binding in role_bindings
	some holder in holders(binding)
}

# METADATA
# description: The subjects that have the input in the whole cluster; if there are none, those that have it in namespaces.
widest_holders := cluster_holders if {
	count(cluster_holders) > 0
} else := namespace_holders

role_bindings := data.lib.neighbours.everywhere("rbac.authorization.k8s.io/v1", "RoleBinding") if input.kind == "ClusterRole"

role_bindings := data.lib.neighbours.in_namespace("rbac.authorization.k8s.io/v1", "RoleBinding") if input.kind == "Role"

# The subjects of a binding, if it refers to the input.
holders(binding) := {holder |
	binding.roleRef.kind == input.kind
	binding.roleRef.name == input.metadata.name
	some subject in binding.subjects
	subject.kind in {"Group", "ServiceAccount", "User"}
	not is_control_plane(subject)
	holder := subject_name(subject, binding)
}

# The kind and name of a subject, with the namespace of a ServiceAccount.
subject_name(subject, binding) := sprintf("serviceaccount %s", [trim_prefix(name, "/")]) if {
	subject.kind == "ServiceAccount"
	name := sprintf("%s/%s", [namespace_of(subject, binding), subject.name])
}

subject_name(subject, _) := sprintf("%s %s", [lower(subject.kind), subject.name]) if subject.kind != "ServiceAccount"

# Names that begin with system: belong to Kubernetes, except for those that include ordinary users and pods.
is_control_plane(subject) if {
	subject.kind in {"Group", "User"}
	startswith(subject.name, "system:")
	not subject.name in {"system:anonymous", "system:authenticated", "system:unauthenticated"}
	not startswith(subject.name, "system:serviceaccount")
}

is_control_plane(subject) if {
	subject.kind == "Group"
	subject.name == "kubeadm:cluster-admins"
}

# METADATA
# description: Roles that Kubernetes grants to everybody, for information about the server and about one's own permissions.
public_roles := {
	["ClusterRole", "system:basic-user", "system:authenticated"],
	["ClusterRole", "system:discovery", "system:authenticated"],
	["ClusterRole", "system:public-info-viewer", "system:authenticated"],
	["ClusterRole", "system:public-info-viewer", "system:unauthenticated"],
	["ClusterRole", "system:service-account-issuer-discovery", "system:serviceaccounts"],
}

# METADATA
# description: The result for one rule of a role.
rule_flaw(rule, field, value, text) := {
	"msg": sprintf("rules[%d] %s", [rule.index, text]),
	"details": {"field": sprintf("rules[%d].%s", [rule.index, field]), "value": sort(value)},
}

# METADATA
# description: |
#   The result for a rule of a role that lets its holders do something, with the names of at most three of them; undefined if
#   there are none.
holder_flaw(rule, holders, may, change) := object.union(found, {"details": {"subjects": array.slice(sorted, 0, 3)}}) if {
	sorted := sort(holders)
	text := sprintf("lets %s%s %s: %s", [sorted[0], others(sorted), may, change])
	found := rule_flaw(rule, "resources", rule.resources, text)
}

others(sorted) := "" if count(sorted) == 1

others(sorted) := " and others" if count(sorted) > 1

# METADATA
# description: |
#   The result for one subject of a binding. `subject` in the details is its kind and name, with the namespace of a ServiceAccount.
subject_flaw(subject, text) := {
	"msg": sprintf("%s \"%s\" %s", [lower(subject.kind), subject.name, text]),
	"details": {
		"field": sprintf("subjects[%d]", [subject.index]),
		"value": subject.name,
		"subject": subject_name(subject, input),
		"role": role_name,
	},
}
