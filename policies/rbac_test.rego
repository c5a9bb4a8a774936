package rbac_test

import data.lib.build_rbac_test as make
import data.lib.build_test as build

# Each has a wildcard less than everything.
few := [
	make.allow([""], ["*"], ["*"]),
	make.allow(["*"], ["pods"], ["*"]),
	make.allow(["*"], ["*"], ["get", "list"]),
	{"nonResourceURLs": ["*"], "verbs": ["*"]},
	{},
]

# ClusterRoles by name, each with one rule beside one that grants little.
cluster_roles(roles) := {"cluster": {"rbac.authorization.k8s.io/v1": {"ClusterRole": roles_with(roles)}}}

roles_with(roles) := {name: {"rules": [make.allow([""], ["pods"], ["get"]), rule]} | some name, rule in roles}

own_roles(namespace, roles) := {"namespace": {namespace: {"rbac.authorization.k8s.io/v1": {"Role": roles_with(roles)}}}}

# For the pages of the rules.
examples := {
	"deny_wildcard_verbs": {
		"violating": make.role(make.allow(["apps"], ["deployments"], ["*"])),
		"correct": make.role(make.allow(["apps"], ["deployments"], ["get", "list", "watch", "patch"])),
	},
	"deny_wildcard_resources": {
		"violating": make.role(make.allow([""], ["*"], ["get", "update"])),
		"correct": make.role(make.allow([""], ["configmaps"], ["get", "update"])),
	},
	"warn_wildcard_reads": {
		"violating": make.role(make.allow([""], ["*"], ["get", "list"])),
		"correct": make.role(make.allow([""], ["pods", "services"], ["get", "list"])),
	},
	"deny_escalation": {
		"violating": make.cluster_role(make.allow(["rbac.authorization.k8s.io"], ["clusterroles"], ["get", "escalate"])),
		"correct": make.cluster_role(make.allow(["rbac.authorization.k8s.io"], ["clusterroles"], ["get"])),
	},
	"deny_cluster_admin": {
		"violating": make.binding("ClusterRoleBinding", "cluster-admin", [make.user("ann")]),
		"correct": make.binding("ClusterRoleBinding", "view", [make.user("ann")]),
	},
	"deny_anonymous": {
		"violating": make.binding("ClusterRoleBinding", "view", [make.user("ann"), make.user("system:anonymous")]),
		"correct": make.binding("ClusterRoleBinding", "view", [make.user("ann")]),
	},
	"deny_masters_group": {
		"violating": make.binding("ClusterRoleBinding", "view", [make.group("system:masters")]),
		"correct": make.binding("ClusterRoleBinding", "view", [make.group("developers")]),
	},
	"deny_default_account": {
		"violating": make.binding("ClusterRoleBinding", "view", [make.account("default")]),
		"correct": make.binding("ClusterRoleBinding", "view", [make.account("web")]),
	},
	"deny_missing_reference": {
		"violating": make.binding("ClusterRoleBinding", "viewer", [make.user("ann")]),
		"correct": make.binding("ClusterRoleBinding", "view", [make.user("ann")]),
	},
	"deny_everybody": {
		"violating": make.binding("ClusterRoleBinding", "view", [make.group("system:authenticated")]),
		"correct": make.binding("ClusterRoleBinding", "view", [make.group("developers")]),
	},
}

test_wildcard_verbs if {
	every rule in [
		make.allow([""], ["pods"], ["*"]),
		make.allow(["apps"], ["deployments"], ["get", "*"]),
		{"nonResourceURLs": ["/healthz"], "verbs": ["*"]},
	] {
		count(data.rbac.deny_wildcard_verbs) == 1 with input as make.role(rule)
		count(data.rbac.deny_wildcard_verbs) == 1 with input as make.cluster_role(rule)
	}
	every rule in [
		make.allow([""], ["pods"], ["get", "delete"]),
		make.allow(["*"], ["*"], ["get"]),
		make.allow([""], ["pods"], null),
		make.allow(["*"], ["*"], ["*"]),
		make.allow(["*"], ["deployments"], ["*"]),
		make.allow(["apps"], ["*"], ["*"]),
		{},
	] {
		count(data.rbac.deny_wildcard_verbs) == 0 with input as make.role(rule)
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
		make.allow([""], ["*"], ["create"]),
		make.allow(["apps"], ["*"], ["get", "update"]),
		make.allow(["*"], ["deployments"], ["patch"]),
		make.allow(["*"], ["*"], ["*"]),
		make.allow([""], ["pods", "*"], ["deletecollection"]),
	] {
		count(data.rbac.deny_wildcard_resources) == 1 with input as make.role(rule)
		count(data.rbac.deny_wildcard_resources) == 1 with input as make.cluster_role(rule)
	}
	every rule in [
		make.allow([""], ["pods"], ["create"]),
		make.allow(["*"], ["*"], ["get", "list", "watch"]),
		make.allow(["*"], ["deployments"], ["get"]),
		make.allow(["apps"], ["*/scale"], ["update"]),
		make.allow([""], ["*"], []),
	] {
		count(data.rbac.deny_wildcard_resources) == 0 with input as make.role(rule)
	}
	fields := data.rbac.deny_wildcard_resources with input as make.role(make.allow(["*", "apps"], ["deployments"], ["patch"]))
	fields == {{
		"msg": "rules[0] allows changes to all apiGroups: list those that are needed",
		"details": {"field": "rules[0].apiGroups", "value": ["*", "apps"]},
	}}
	both := data.rbac.deny_wildcard_resources with input as make.role(make.allow(["*"], ["*"], ["update"]))
	build.messages(both) == {"rules[0] allows changes to all resources of all apiGroups: list those that are needed"}
}

test_wildcards_in_one_minor_group if {
	verbs := data.rbac.deny_wildcard_verbs with input as make.role(make.allow(["metrics.example.com"], ["samples"], ["*"]))
	verbs == {{
		"msg": "rules[0] allows every verb of API group metrics.example.com: list the verbs that are needed",
		"severity": "low",
		"details": {"field": "rules[0].verbs", "value": ["*"]},
	}}
	all := data.rbac.deny_wildcard_resources with input as make.role(make.allow(["metrics.example.com"], ["*"], ["*"]))
	all == {{
		"msg": "rules[0] allows everything on all resources of API group metrics.example.com: list those that are needed",
		"severity": "low",
		"details": {"field": "rules[0].resources", "value": ["*"]},
	}}
	urls := data.rbac.deny_wildcard_verbs with input as make.cluster_role({"nonResourceURLs": ["*"], "verbs": ["*"]})
	urls == {{
		"msg": "rules[0] allows every verb of nonResourceURLs: list the verbs that are needed",
		"severity": "low",
		"details": {"field": "rules[0].verbs", "value": ["*"]},
	}}
	every group in {
		"", "*", "admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "apps", "batch",
		"certificates.k8s.io", "rbac.authorization.k8s.io",
	} {
		results := data.rbac.deny_wildcard_resources with input as make.role(make.allow([group, "metrics.example.com"], ["*"], ["*"]))
		count(results) == 1
		every result in results { object.get(result, "severity", "as the rule's") == "as the rule's" }
	}
}

test_several_minor_groups if {
	every groups, want in {
		{"b.example.com", "a.example.com"}: "rules[0] allows every verb of API group a.example.com and another: list the verbs that are needed",
		{"c.example.com", "b.example.com", "a.example.com"}: "rules[0] allows every verb of API group a.example.com and 2 others: list the verbs that are needed",
	} {
		results := data.rbac.deny_wildcard_verbs with input as make.cluster_role(make.allow(sort(groups), ["samples"], ["*"]))
		build.messages(results) == {want}
	}
}

test_wildcard_verbs_in_a_namespace if {
	every rule, want in {
		make.allow([""], ["pods"], ["*"]): "medium",
		make.allow(["apps", "rbac.authorization.k8s.io"], ["roles"], ["*"]): "as the rule's",
		make.allow(["metrics.example.com"], ["samples"], ["*"]): "low",
	} {
		results := data.rbac.deny_wildcard_verbs with input as make.role(rule)
		[want] == [object.get(result, "severity", "as the rule's") | some result in results]
	}
	everywhere := data.rbac.deny_wildcard_verbs with input as make.cluster_role(make.allow([""], ["pods"], ["*"]))
	["as the rule's"] == [object.get(result, "severity", "as the rule's") | some result in everywhere]
}

test_wildcard_reads if {
	every rule in [make.allow([""], ["*"], ["get"]), make.allow(["*"], ["*"], ["get", "list", "watch"])] {
		count(data.rbac.warn_wildcard_reads) == 1 with input as make.role(rule)
		count(data.rbac.warn_wildcard_reads) == 1 with input as make.cluster_role(rule)
	}
	every rule in [
		make.allow(["apps"], ["*"], ["get"]),
		make.allow(["*"], ["deployments"], ["list"]),
		make.allow([""], ["*"], ["get", "update"]),
		make.allow([""], ["*"], []),
	] {
		count(data.rbac.warn_wildcard_reads) == 0 with input as make.role(rule)
	}
	results := data.rbac.warn_wildcard_reads with input as make.role(make.allow([""], ["*"], ["get"]))
	results == {{
		"msg": "rules[0] allows reading all resources, Secrets too: list those that are needed",
		"details": {"field": "rules[0].resources", "value": ["*"]},
	}}
}

test_escalation if {
	every rule, verb in {
		make.allow(["rbac.authorization.k8s.io"], ["clusterroles"], ["get", "bind"]): "bind",
		make.allow(["*"], ["roles"], ["get", "escalate"]): "escalate",
		make.allow([""], ["users"], ["get", "impersonate"]): "impersonate",
		make.allow([""], ["groups"], ["impersonate"]): "impersonate",
		make.allow([""], ["serviceaccounts"], ["impersonate"]): "impersonate",
		make.allow(["authentication.k8s.io"], ["uids"], ["impersonate"]): "impersonate",
		make.allow(["authentication.k8s.io"], ["userextras/scopes"], ["impersonate"]): "impersonate",
	} {
		results := data.rbac.deny_escalation with input as make.cluster_role(rule)
		build.messages(results) == {sprintf("rules[0] allows privilege escalation (verb %s): remove the verb", [verb])}
		results == data.rbac.deny_escalation with input as make.role(rule)
	}
	several := data.rbac.deny_escalation with input as make.role(make.allow(["rbac.authorization.k8s.io"], ["roles"], ["get", "escalate", "bind"]))
	several == {{
		"msg": "rules[0] allows privilege escalation (verb bind, escalate): remove the verb",
		"details": {"field": "rules[0].verbs", "value": ["bind", "escalate"]},
	}}
	every rule in [
		make.allow([""], ["pods"], ["get", "create"]),
		make.allow(["apis.example.com"], ["apiexports"], ["bind"]),
		make.allow(["authorization.example.com"], ["users"], ["impersonate"]),
		make.allow(["authentication.k8s.io"], ["users"], ["impersonate"]),
		make.named(make.allow(["rbac.authorization.k8s.io"], ["clusterroles"], ["bind"]), ["view"]),
	] {
		count(data.rbac.deny_escalation) == 0 with input as make.role(rule)
	}
	every names in [[], ["view", "cluster-admin"], ["edit"], ["system:node"]] {
		rule := make.named(make.allow(["rbac.authorization.k8s.io"], ["clusterroles"], ["bind"]), names)
		count(data.rbac.deny_escalation) == 1 with input as make.role(rule)
	}
	rule := make.named(make.allow(["rbac.authorization.k8s.io"], ["clusterroles"], ["bind"]), ["view", "superuser"])
	count(data.rbac.deny_escalation) == 1 with input as make.role(rule) with data.inventory as cluster_roles({"superuser": make.everything})
	count(data.rbac.deny_escalation) == 0 with input as make.role(rule) with data.inventory as cluster_roles({"other": make.everything})
	every little in few {
		count(data.rbac.deny_escalation) == 0 with input as make.role(rule) with data.inventory as cluster_roles({"superuser": little})
	}
	results := data.rbac.deny_escalation with input as make.role(make.named(make.allow([""], ["users"], ["impersonate"]), ["ann"]))
	{result.severity | some result in results} == {"low"}
	every strong in [
		make.allow([""], ["users"], ["impersonate"]),
		make.named(make.allow([""], ["users"], ["impersonate"]), ["admin"]),
		make.named(make.allow(["", "rbac.authorization.k8s.io"], ["clusterroles", "users"], ["escalate", "impersonate"]), ["ann"]),
	] {
		found := data.rbac.deny_escalation with input as make.role(strong)
		{object.get(result, "severity", "as the rule's") | some result in found} == {"as the rule's"}
	}
}

test_old_versions if {
	every version in ["rbac.authorization.k8s.io/v1alpha1", "rbac.authorization.k8s.io/v1beta1"] {
		role := object.union(make.role(make.everything), {"apiVersion": version})
		count(data.rbac.deny_wildcard_resources) == 1 with input as role
		binding := object.union(make.binding("RoleBinding", "cluster-admin", [make.user("ann")]), {"apiVersion": version})
		count(data.rbac.deny_cluster_admin) == 1 with input as binding
	}
}

test_builtin_roles if {
	labelled := {"metadata": {"labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}}}
	every name in ["cluster-admin", "admin", "edit", "view", "system:controller:generic-garbage-collector"] {
		role := object.union(make.cluster_role(make.everything), {"metadata": {"name": name}})
		count(data.rbac.deny_wildcard_resources) == 0 with input as object.union(role, labelled)
		count(data.rbac.deny_wildcard_resources) == 1 with input as role
	}

	# Anybody who creates a role can set the label.
	count(data.rbac.deny_wildcard_resources) == 1 with input as object.union(make.cluster_role(make.everything), labelled)
}

test_cluster_admin if {
	every kind in ["ClusterRoleBinding", "RoleBinding"] {
		subjects := [make.user("ann"), make.group("developers"), make.account("web")]
		results := data.rbac.deny_cluster_admin with input as make.binding(kind, "cluster-admin", subjects)
		build.messages(results) == {
			"user \"ann\" has the role cluster-admin: bind a smaller role",
			"group \"developers\" has the role cluster-admin: bind a smaller role",
			"serviceaccount \"web\" has the role cluster-admin: bind a smaller role",
		}
		count(data.rbac.deny_cluster_admin) == 0 with input as make.binding(kind, "view", subjects)
		count(data.rbac.deny_cluster_admin) == 0 with input as make.binding(kind, "cluster-admin", null)
	}

	# A Role of that name in a namespace is a different role.
	own := object.union(make.binding("RoleBinding", "cluster-admin", [make.user("ann")]), {"roleRef": {"kind": "Role"}})
	count(data.rbac.deny_cluster_admin) == 0 with input as own
}

test_role_that_allows_everything if {
	subjects := [make.user("ann"), make.account("default"), make.group("system:masters")]
	every kind in ["ClusterRoleBinding", "RoleBinding"] {
		bound := make.binding(kind, "superuser", subjects)
		results := data.rbac.deny_cluster_admin with input as bound with data.inventory as cluster_roles({"superuser": make.everything})
		build.messages(results) == {
			"user \"ann\" has all rights by the ClusterRole superuser: bind a smaller role",
			"serviceaccount \"default\" has all rights by the ClusterRole superuser: bind a smaller role",
		}
		every rule in few {
			count(data.rbac.deny_cluster_admin) == 0 with input as bound with data.inventory as cluster_roles({"superuser": rule})
		}
		count(data.rbac.deny_cluster_admin) == 0 with input as bound with data.inventory as cluster_roles({"other": make.everything})

		# The API server ignores a namespace in the manifest of a ClusterRole.
		placed := {"namespace": {"shop": cluster_roles({"superuser": make.everything}).cluster, "bank": cluster_roles({"superuser": few[0]}).cluster}}
		count(data.rbac.deny_cluster_admin) == 2 with input as bound with data.inventory as placed

		# A Role of that name in a namespace is another one.
		beside := object.union(bound, {"metadata": {"namespace": "shop"}})
		count(data.rbac.deny_cluster_admin) == 0 with input as beside with data.inventory as own_roles("shop", {"superuser": make.everything})
		empty := {"cluster": {"rbac.authorization.k8s.io/v1": {"ClusterRole": {"superuser": {"rules": null}}}}}
		count(data.rbac.deny_cluster_admin) == 0 with input as bound with data.inventory as empty
	}
}

# RBAC-02 reports a Role of the binding's own namespace.
test_own_role_that_allows_everything if {
	own := object.union(make.binding("RoleBinding", "superuser", [make.user("ann")]), {"metadata": {"namespace": "shop"}, "roleRef": {"kind": "Role"}})
	count(data.rbac.deny_cluster_admin) == 0 with input as own with data.inventory as own_roles("shop", {"superuser": make.everything})
	count(data.rbac.deny_cluster_admin) == 0 with input as own with data.inventory as cluster_roles({"superuser": make.everything})
}

test_administrators if {
	admins := [make.group("system:masters"), make.group("kubeadm:cluster-admins")]
	count(data.rbac.deny_cluster_admin) == 0 with input as make.binding("ClusterRoleBinding", "cluster-admin", admins)

	# Subjects added to the built-in binding later are reported, and so is a user with the name of a group.
	count(data.rbac.deny_cluster_admin) == 2 with input as make.binding(
		"ClusterRoleBinding", "cluster-admin",
		[make.group("system:masters"), make.account("web"), make.user("system:masters")],
	)
}

test_anonymous if {
	every subject in [make.user("system:anonymous"), make.group("system:unauthenticated")] {
		every kind in ["ClusterRoleBinding", "RoleBinding"] {
			results := data.rbac.deny_anonymous with input as make.binding(kind, "view", [make.user("ann"), subject])
			build.messages(results) == {sprintf("%s \"%s\" has the role without logging in: remove the subject", [lower(subject.kind), subject.name])}
		}
	}
	count(data.rbac.deny_anonymous) == 1 with input as make.binding("ClusterRoleBinding", "system:discovery", [make.group("system:unauthenticated")])
	count(data.rbac.deny_anonymous) == 0 with input as make.binding("ClusterRoleBinding", "view", [make.user("ann"), make.group("system:authenticated")])
}

test_everybody if {
	members := {"system:authenticated": "every authenticated user", "system:serviceaccounts": "every service account"}
	every name, who in members {
		results := data.rbac.deny_everybody with input as make.binding("ClusterRoleBinding", "view", [make.group(name)])
		want := "group \"%s\" includes %s: bind the users or service accounts that need the role"
		build.messages(results) == {sprintf(want, [name, who])}
		count(data.rbac.deny_everybody) == 1 with input as make.binding("RoleBinding", "view", [make.group(name), make.user("ann")])
	}
	count(data.rbac.deny_everybody) == 0 with input as make.binding(
		"RoleBinding", "view",
		[make.group("developers"), make.user("system:authenticated"), make.user("system:serviceaccounts:shop"), make.account("web"), make.group(1)],
	)
}

pods := make.group("system:serviceaccounts:shop")

test_all_pods_of_a_namespace if {
	every kind in ["ClusterRoleBinding", "RoleBinding"] {
		every name in ["admin", "edit", "cluster-admin"] {
			results := data.rbac.deny_everybody with input as make.binding(kind, name, [pods, make.account("web")])
			results == {{
				"msg": "group \"system:serviceaccounts:shop\" includes every pod with a token there: bind the service accounts that need the role",
				"details": {"field": "subjects[0]", "value": "system:serviceaccounts:shop", "subject": "group system:serviceaccounts:shop", "role": name},
			}}
		}
		bound := make.binding(kind, "superuser", [pods])
		full := data.rbac.deny_everybody with input as bound with data.inventory as cluster_roles({"superuser": make.everything})
		{object.get(result, "severity", "as the rule's") | some result in full} == {"as the rule's"}
		every inventory in [{}, cluster_roles({"superuser": few[0]})] {
			little := data.rbac.deny_everybody with input as bound with data.inventory as inventory
			{object.get(result, "severity", "as the rule's") | some result in little} == {"low"}
		}
	}

	# A Role of that name in the namespace grants what its rules say, but not to a binding for a ClusterRole.
	other := make.in_namespace("shop", make.binding("RoleBinding", "superuser", [pods]))
	none := data.rbac.deny_everybody with input as other with data.inventory as own_roles("shop", {"superuser": make.everything})
	{object.get(result, "severity", "as the rule's") | some result in none} == {"low"}
	own := object.union(make.binding("RoleBinding", "edit", [pods]), {"metadata": {"namespace": "shop"}, "roleRef": {"kind": "Role"}})
	strong := data.rbac.deny_everybody with input as own with data.inventory as own_roles("shop", {"edit": make.everything})
	{object.get(result, "severity", "as the rule's") | some result in strong} == {"as the rule's"}
	every inventory in [{}, own_roles("shop", {"edit": few[0]}), own_roles("bank", {"edit": make.everything}), cluster_roles({"edit": make.everything})] {
		weak := data.rbac.deny_everybody with input as own with data.inventory as inventory
		{object.get(result, "severity", "as the rule's") | some result in weak} == {"low"}
	}
}

test_image_pullers_of_openshift if {
	count(data.rbac.deny_everybody) == 0 with input as make.binding("RoleBinding", "system:image-puller", [pods])
	own := object.union(make.binding("RoleBinding", "system:image-puller", [pods]), {"roleRef": {"kind": "Role"}})
	count(data.rbac.deny_everybody) == 1 with input as own
	count(data.rbac.deny_everybody) == 1 with input as make.binding("RoleBinding", "system:image-puller", [make.group("system:serviceaccounts")])
}

test_public_roles if {
	every name in ["system:basic-user", "system:discovery"] {
		count(data.rbac.deny_everybody) == 0 with input as make.binding("ClusterRoleBinding", name, [make.group("system:authenticated")])
	}
	issuer := "system:service-account-issuer-discovery"
	count(data.rbac.deny_everybody) == 0 with input as make.binding("ClusterRoleBinding", issuer, [make.group("system:serviceaccounts")])
	cluster_info := object.union(
		make.binding("RoleBinding", "kubeadm:bootstrap-signer-clusterinfo", [make.user("system:anonymous")]),
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
	info := make.binding("ClusterRoleBinding", "system:public-info-viewer", [make.group("system:authenticated"), make.group("system:unauthenticated")])
	count(data.rbac.deny_everybody) == 0 with input as info
	count(data.rbac.deny_anonymous) == 0 with input as info
}
