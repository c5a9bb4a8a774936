package rbac_test

import data.lib.build_test as build

role(rule) := {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "web"}, "rules": [rule]}

cluster_role(rule) := object.union(role(rule), {"kind": "ClusterRole"})

allow(groups, resources, verbs) := {"apiGroups": groups, "resources": resources, "verbs": verbs}

binding(kind, role, subjects) := {
	"apiVersion": "rbac.authorization.k8s.io/v1",
	"kind": kind,
	"metadata": {"name": "web"},
	"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
	"subjects": subjects,
}

group(name) := {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": name}

user(name) := {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}

account(name) := {"kind": "ServiceAccount", "namespace": "shop", "name": name}

test_wildcard_verbs if {
	every rule in [
		allow([""], ["pods"], ["*"]),
		allow(["apps"], ["deployments"], ["get", "*"]),
		{"nonResourceURLs": ["/healthz"], "verbs": ["*"]},
	] {
		count(data.rbac.deny_wildcard_verbs) == 1 with input as role(rule)
		count(data.rbac.deny_wildcard_verbs) == 1 with input as cluster_role(rule)
	}
	every rule in [allow([""], ["pods"], ["get", "delete"]), allow(["*"], ["*"], ["get"]), allow([""], ["pods"], null), {}] {
		count(data.rbac.deny_wildcard_verbs) == 0 with input as role(rule)
	}
	every rules in [null, []] {
		count(data.rbac.deny_wildcard_verbs) == 0 with input as {
			"apiVersion": "rbac.authorization.k8s.io/v1",
			"kind": "ClusterRole",
			"rules": rules,
		}
	}
}

test_wildcard_resources if {
	every rule in [
		allow([""], ["*"], ["create"]),
		allow(["apps"], ["*"], ["get", "update"]),
		allow(["*"], ["deployments"], ["patch"]),
		allow(["*"], ["*"], ["*"]),
		allow([""], ["pods", "*"], ["deletecollection"]),
	] {
		count(data.rbac.deny_wildcard_resources) == 1 with input as role(rule)
		count(data.rbac.deny_wildcard_resources) == 1 with input as cluster_role(rule)
	}
	every rule in [
		allow([""], ["pods"], ["create"]),
		allow(["*"], ["*"], ["get", "list", "watch"]),
		allow(["*"], ["deployments"], ["get"]),
		allow(["apps"], ["*/scale"], ["update"]),
		allow([""], ["*"], []),
	] {
		count(data.rbac.deny_wildcard_resources) == 0 with input as role(rule)
	}
	fields := data.rbac.deny_wildcard_resources with input as role(allow(["*", "apps"], ["deployments"], ["patch"]))
	fields == {{
		"msg": "rules[0] allows changes to all apiGroups: list those that are needed",
		"details": {"field": "rules[0].apiGroups", "value": ["*", "apps"]},
	}}
	both := data.rbac.deny_wildcard_resources with input as role(allow(["*"], ["*"], ["update"]))
	build.messages(both) == {"rules[0] allows changes to all resources of all apiGroups: list those that are needed"}
}

test_wildcard_reads if {
	every rule in [allow([""], ["*"], ["get"]), allow(["*"], ["*"], ["get", "list", "watch"])] {
		count(data.rbac.warn_wildcard_reads) == 1 with input as role(rule)
		count(data.rbac.warn_wildcard_reads) == 1 with input as cluster_role(rule)
	}
	every rule in [
		allow(["apps"], ["*"], ["get"]),
		allow(["*"], ["deployments"], ["list"]),
		allow([""], ["*"], ["get", "update"]),
		allow([""], ["*"], []),
	] {
		count(data.rbac.warn_wildcard_reads) == 0 with input as role(rule)
	}
}

test_escalation if {
	every verb in ["bind", "escalate", "impersonate"] {
		rule := allow(["rbac.authorization.k8s.io"], ["clusterroles"], ["get", verb])
		results := data.rbac.deny_escalation with input as cluster_role(rule)
		build.messages(results) == {sprintf("rules[0] allows taking rights by %s: remove the verb", [verb])}
		results == data.rbac.deny_escalation with input as role(rule)
	}
	count(data.rbac.deny_escalation) == 0 with input as role(allow([""], ["pods"], ["get", "create"]))
}

test_builtin_roles if {
	everything := allow(["*"], ["*"], ["*"])
	labelled := {"metadata": {"labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}}}
	every name in ["cluster-admin", "admin", "edit", "view", "system:controller:generic-garbage-collector"] {
		named := object.union(cluster_role(everything), {"metadata": {"name": name}})
		count(data.rbac.deny_wildcard_verbs) == 0 with input as object.union(named, labelled)
		count(data.rbac.deny_wildcard_verbs) == 1 with input as named
	}

	# Anybody who creates a role can set the label.
	count(data.rbac.deny_wildcard_verbs) == 1 with input as object.union(cluster_role(everything), labelled)
}

test_cluster_admin if {
	every kind in ["ClusterRoleBinding", "RoleBinding"] {
		subjects := [user("ann"), group("developers"), account("web")]
		results := data.rbac.deny_cluster_admin with input as binding(kind, "cluster-admin", subjects)
		build.messages(results) == {
			"user \"ann\" has the role cluster-admin: bind a role with the rights that are needed",
			"group \"developers\" has the role cluster-admin: bind a role with the rights that are needed",
			"serviceaccount \"web\" has the role cluster-admin: bind a role with the rights that are needed",
		}
		count(data.rbac.deny_cluster_admin) == 0 with input as binding(kind, "view", subjects)
		count(data.rbac.deny_cluster_admin) == 0 with input as binding(kind, "cluster-admin", null)
	}

	# A Role of that name in a namespace is a different role.
	own := object.union(binding("RoleBinding", "cluster-admin", [user("ann")]), {"roleRef": {"kind": "Role"}})
	count(data.rbac.deny_cluster_admin) == 0 with input as own
}

test_administrators if {
	admins := [group("system:masters"), group("kubeadm:cluster-admins")]
	count(data.rbac.deny_cluster_admin) == 0 with input as binding("ClusterRoleBinding", "cluster-admin", admins)

	# Subjects added to the built-in binding later are reported, and so is a user with the name of a group.
	count(data.rbac.deny_cluster_admin) == 2 with input as binding(
		"ClusterRoleBinding", "cluster-admin",
		[group("system:masters"), account("web"), user("system:masters")],
	)
}

test_anonymous if {
	every subject in [user("system:anonymous"), group("system:unauthenticated")] {
		every kind in ["ClusterRoleBinding", "RoleBinding"] {
			count(data.rbac.deny_anonymous) == 1 with input as binding(kind, "view", [user("ann"), subject])
		}
	}
	count(data.rbac.deny_anonymous) == 1 with input as binding("ClusterRoleBinding", "system:discovery", [group("system:unauthenticated")])
	count(data.rbac.deny_anonymous) == 0 with input as binding("ClusterRoleBinding", "view", [user("ann"), group("system:authenticated")])
}

test_everybody if {
	every name in ["system:authenticated", "system:serviceaccounts"] {
		count(data.rbac.deny_everybody) == 1 with input as binding("ClusterRoleBinding", "view", [group(name)])
		count(data.rbac.deny_everybody) == 1 with input as binding("RoleBinding", "view", [group(name), user("ann")])
	}
	count(data.rbac.deny_everybody) == 0 with input as binding(
		"RoleBinding", "view",
		[group("system:serviceaccounts:shop"), group("developers"), user("system:authenticated"), account("web")],
	)
}

test_public_roles if {
	every name in ["system:basic-user", "system:discovery"] {
		count(data.rbac.deny_everybody) == 0 with input as binding("ClusterRoleBinding", name, [group("system:authenticated")])
	}
	issuer := "system:service-account-issuer-discovery"
	count(data.rbac.deny_everybody) == 0 with input as binding("ClusterRoleBinding", issuer, [group("system:serviceaccounts")])
	cluster_info := object.union(
		binding("RoleBinding", "kubeadm:bootstrap-signer-clusterinfo", [user("system:anonymous")]),
		{"roleRef": {"kind": "Role"}, "metadata": {"namespace": "kube-public"}},
	)
	count(data.rbac.deny_anonymous) == 0 with input as cluster_info
	every elsewhere in [
		{"metadata": {"namespace": "shop"}},
		{"roleRef": {"kind": "ClusterRole"}},
		{"roleRef": {"name": "other"}},
	] {
		count(data.rbac.deny_anonymous) == 1 with input as object.union(cluster_info, elsewhere)
	}
	info := binding("ClusterRoleBinding", "system:public-info-viewer", [group("system:authenticated"), group("system:unauthenticated")])
	count(data.rbac.deny_everybody) == 0 with input as info
	count(data.rbac.deny_anonymous) == 0 with input as info
}
