# Roles and bindings for the tests of all packages.
package lib.build_rbac_test

version := "rbac.authorization.k8s.io/v1"

role(rule) := {"apiVersion": version, "kind": "Role", "metadata": {"name": "web"}, "rules": [rule]}

cluster_role(rule) := object.union(role(rule), {"kind": "ClusterRole"})

named(rule, names) := object.union(rule, {"resourceNames": names})

allow(groups, resources, verbs) := {"apiGroups": groups, "resources": resources, "verbs": verbs}

everything := allow(["*"], ["*"], ["*"])

# To a ClusterRole.
binding(kind, role, subjects) := {
	"apiVersion": version,
	"kind": kind,
	"metadata": {"name": "web"},
	"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
	"subjects": subjects,
}

group(name) := {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": name}

user(name) := {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}

account(name) := {"kind": "ServiceAccount", "namespace": "shop", "name": name}

in_namespace(namespace, item) := object.union(item, {"metadata": {"namespace": namespace}})

to_role(item) := object.union(item, {"roleRef": {"kind": "Role"}})

builtin(name, item) := object.union(item, {"metadata": {
	"name": name,
	"labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
}})
