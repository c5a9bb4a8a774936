package rbac_test

import data.lib.build_rbac_test as make
import data.lib.build_test as build

bindings := {"ClusterRoleBinding", "RoleBinding"}

grade(result) := object.get(result, "severity", "as the rule's")

test_masters_group if {
	every kind in bindings {
		results := data.rbac.deny_masters_group with input as make.binding(kind, "view", [make.user("ann"), make.group("system:masters")])
		results == {{
			"msg": "group \"system:masters\" bypasses authorization and cannot be revoked: bind a group of your own",
			"details": {"field": "subjects[1]", "value": "system:masters", "subject": "group system:masters", "role": "view"},
		}}
	}
	every subject in [make.user("system:masters"), make.group("system:nodes"), make.group("masters"), {"kind": "Group"}, {}] {
		count(data.rbac.deny_masters_group) == 0 with input as make.binding("ClusterRoleBinding", "view", [subject])
	}
	count(data.rbac.deny_masters_group) == 0 with input as make.binding("ClusterRoleBinding", "view", null)
}

test_masters_group_of_the_api_server if {
	bound := make.binding("ClusterRoleBinding", "cluster-admin", [make.group("system:masters")])
	count(data.rbac.deny_masters_group) == 0 with input as make.builtin("cluster-admin", bound)
	count(data.rbac.deny_masters_group) == 1 with input as make.builtin("admins", bound)
	count(data.rbac.deny_masters_group) == 0 with input as object.union(bound, {"apiVersion": "example.com/v1"})
}

test_default_account if {
	every kind in bindings {
		results := data.rbac.deny_default_account with input as make.binding(kind, "view", [make.account("web"), make.account("default")])
		results == {{
			"msg": "serviceaccount \"default\" lends the role to every pod without an account of its own: create a ServiceAccount",
			"severity": "medium",
			"details": {"field": "subjects[1]", "value": "default", "subject": "serviceaccount shop/default", "role": "view"},
		}}
		every role in ["admin", "cluster-admin", "edit"] {
			strong := data.rbac.deny_default_account with input as make.binding(kind, role, [make.account("default")])
			{grade(result) | some result in strong} == {"as the rule's"}
		}
	}
	every subject in [make.user("default"), make.group("default"), make.account("web"), {"kind": "ServiceAccount"}] {
		count(data.rbac.deny_default_account) == 0 with input as make.binding("ClusterRoleBinding", "edit", [subject])
	}
}

test_default_account_with_all_rights if {
	bound := make.binding("ClusterRoleBinding", "superuser", [make.account("default")])
	full := data.rbac.deny_default_account with input as bound with data.inventory as cluster_roles({"superuser": make.everything})
	{grade(result) | some result in full} == {"as the rule's"}
	little := data.rbac.deny_default_account with input as bound with data.inventory as cluster_roles({"superuser": few[0]})
	{grade(result) | some result in little} == {"medium"}
}

test_default_account_of_the_api_server if {
	bound := make.binding("ClusterRoleBinding", "edit", [make.account("default")])
	count(data.rbac.deny_default_account) == 0 with input as make.builtin("system:web", bound)
	count(data.rbac.deny_default_account) == 1 with input as make.builtin("web", bound)
	count(data.rbac.deny_default_account) == 0 with input as object.union(bound, {"kind": "BindingRequest"})
}

web_account := {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "web", "namespace": "shop"}}

missing(binding, objects) := found if {
	found := data.rbac.deny_missing_reference with input as binding with data.inventory as build.inventory(objects)
}

test_role_that_does_not_exist if {
	every kind in bindings {
		binding := make.in_namespace("shop", make.binding(kind, "web", [make.user("ann"), make.group("developers")]))
		missing(binding, []) == {{
			"msg": "clusterrole \"web\" does not exist: create it, or delete the binding",
			"details": {"field": "roleRef.name", "value": "web"},
		}}
		count(missing(binding, [make.cluster_role({})])) == 0
		count(missing(binding, [make.in_namespace("shop", make.cluster_role({}))])) == 0
		count(missing(binding, [make.in_namespace("shop", make.role({}))])) == 1
		count(missing(object.remove(binding, ["roleRef"]), [])) == 0
	}
}

test_own_role_that_does_not_exist if {
	binding := make.in_namespace("shop", make.to_role(make.binding("RoleBinding", "web", [make.user("ann")])))
	build.messages(missing(binding, [])) == {"role \"web\" does not exist: create it, or delete the binding"}
	count(missing(binding, [make.in_namespace("shop", make.role({}))])) == 0
	count(missing(binding, [make.in_namespace("bank", make.role({}))])) == 1
	count(missing(binding, [make.cluster_role({})])) == 1

	# Manifests may leave the namespace of both out.
	count(missing(make.to_role(make.binding("RoleBinding", "web", [make.user("ann")])), [make.role({})])) == 0
}

test_roles_of_every_cluster if {
	every name in ["admin", "cluster-admin", "edit", "view", "system:auth-delegator"] {
		count(missing(make.binding("ClusterRoleBinding", name, [make.user("ann")]), [])) == 0
	}
	every name in ["extension-apiserver-authentication-reader", "system::leader-locking-kube-scheduler"] {
		binding := make.to_role(make.binding("RoleBinding", name, [make.user("ann")]))
		count(missing(make.in_namespace("kube-system", binding), [])) == 0
	}
	binding := make.binding("ClusterRoleBinding", "extension-apiserver-authentication-reader", [make.user("ann")])
	count(missing(binding, [])) == 1
}

test_account_that_does_not_exist if {
	every kind in bindings {
		binding := make.in_namespace("shop", make.binding(kind, "view", [make.user("web"), make.account("web")]))
		missing(binding, []) == {{
			"msg": "serviceaccount \"web\" does not exist in namespace shop: create it, or remove the subject",
			"details": {"field": "subjects[1]", "value": "web", "subject": "serviceaccount shop/web", "role": "view"},
		}}
		count(missing(binding, [web_account])) == 0
		count(missing(binding, [object.union(web_account, {"metadata": {"name": "api"}})])) == 1
		count(missing(binding, [object.union(web_account, {"metadata": {"namespace": "bank"}})])) == 1

		# A manifest of the account may leave the namespace out.
		count(missing(binding, [json.remove(web_account, ["metadata/namespace"])])) == 0

		# With manifests, kaudit finds those of the namespace default there, too.
		account := json.patch(web_account, [{"op": "replace", "path": "/metadata/namespace", "value": "default"}])
		beside := {"cluster": {"v1": {"ServiceAccount": {"web": account}}}}
		count(data.rbac.deny_missing_reference) == 1 with input as binding with data.inventory as beside
	}
}

test_accounts_that_are_not_looked_up if {
	every subject in [make.account("default"), make.user("web"), make.group("web"), {"kind": "ServiceAccount"}, {}] {
		count(missing(make.binding("ClusterRoleBinding", "view", [subject]), [])) == 0
	}
}

test_bindings_of_the_api_server if {
	binding := make.binding("ClusterRoleBinding", "web", [make.account("web")])
	count(missing(binding, [])) == 2
	count(missing(make.builtin("system:controller:web", binding), [])) == 0
	count(missing(object.union(binding, {"apiVersion": "example.com/v1"}), [])) == 0
}

# Manifests may leave out the namespaces, and the role is unknown while they are written.
test_incomplete_bindings if {
	subject := {"kind": "ServiceAccount", "name": "default"}
	binding := object.remove(make.binding("RoleBinding", "view", [subject]), ["roleRef"])
	some result in data.rbac.deny_default_account with input as binding
	result.details == {"field": "subjects[0]", "value": "default", "subject": "serviceaccount default", "role": ""}
}

test_names_that_are_no_text if {
	binding := make.builtin(1, make.binding("ClusterRoleBinding", "view", [make.group("system:masters")]))
	count(data.rbac.deny_masters_group) == 1 with input as binding
	data.lib.rbac.subjects == [] with input as make.binding("ClusterRoleBinding", "view", [{"kind": 1, "name": "ann"}])
}
