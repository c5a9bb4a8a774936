package rbac_access_test

import data.lib.build_rbac_test as make
import data.lib.build_test as build
import data.rbac_access

# For the pages of the rules; `beside` are the other objects of the example.
examples := {name: {"violating": violating, "correct": correct, "beside": [to_account]} |
	some name, [wrong, right] in {
		"deny_account_tokens": [tokens, make.named(tokens, ["web"])],
		"deny_admission_changes": [webhooks, make.named(webhooks, ["web"])],
		"deny_certificate_approval": [signers, make.named(signers, ["example.com/web"])],
		"deny_node_proxy": [proxy, make.allow([""], ["nodes/metrics"], ["get"])],
		"deny_pod_connections": [exec, make.allow([""], ["pods/log"], ["get"])],
		"deny_secrets": [secrets, make.named(secrets, ["web"])],
	}
	violating := make.cluster_role(wrong)
	correct := make.cluster_role(right)
}

secrets := make.allow([""], ["secrets"], ["get"])

exec := make.allow([""], ["pods/exec"], ["create"])

ports := make.allow([""], ["pods/portforward"], ["create"])

proxy := make.allow([""], ["nodes/proxy"], ["get"])

tokens := make.allow([""], ["serviceaccounts/token"], ["create"])

webhooks := make.allow(["admissionregistration.k8s.io"], ["mutatingwebhookconfigurations"], ["get", "update"])

signers := make.allow(["certificates.k8s.io"], ["signers"], ["approve"])

approval := make.allow(["certificates.k8s.io"], ["certificatesigningrequests/approval"], ["update"])

# Rules with the right of each rule of the package.
rights := [secrets, exec, ports, proxy, tokens, webhooks, signers, approval]

to_account := make.binding("ClusterRoleBinding", "web", [make.account("web")])

in_shop := make.in_namespace("shop", make.binding("RoleBinding", "web", [make.account("web")]))

results := union({
	rbac_access.deny_account_tokens,
	rbac_access.deny_admission_changes,
	rbac_access.deny_certificate_approval,
	rbac_access.deny_node_proxy,
	rbac_access.deny_pod_connections,
	rbac_access.deny_secrets,
})

# Results for a ClusterRole with one rule that is bound in the whole cluster.
found(rule) := with_bindings(make.cluster_role(rule), [to_account])

with_bindings(role, bindings) := found if {
	found := results with input as role with data.inventory as build.inventory(bindings)
}

severity(result) := object.get(result, "severity", "as the rule's")

test_examples if {
	every name, example in examples {
		inventory := build.inventory(example.beside)
		count(rbac_access[name]) == 1 with input as example.violating with data.inventory as inventory
		count(results) == 0 with input as example.correct with data.inventory as inventory
	}
}

test_messages if {
	every rule, message in {
		secrets: "read all Secrets: set resourceNames",
		exec: "run commands in all pods: remove pods/exec",
		ports: "connect to all pods: remove pods/portforward",
		proxy: "run commands on all nodes: use nodes/metrics, not nodes/proxy",
		tokens: "create tokens of all ServiceAccounts: set resourceNames",
		webhooks: "change admission control: set resourceNames",
		signers: "approve client certificates: list signers in resourceNames",
		approval: "approve client certificates: list signers in resourceNames",
		make.allow([""], ["pods/exec", "pods/attach"], ["create"]): "run commands in all pods: remove pods/attach, pods/exec",
	} {
		build.messages(found(rule)) == {sprintf("rules[0] lets serviceaccount shop/web %s", [message])}
	}
}

test_changes_of_admission if {
	every verbs, change in {
		{"create"}: "remove create",
		{"delete", "patch"}: "set resourceNames",
		{"create", "deletecollection", "get", "update"}: "remove create, and remove deletecollection, and set resourceNames",
	} {
		results := found(make.allow(["admissionregistration.k8s.io"], ["mutatingwebhookconfigurations"], sort(verbs)))
		build.messages(results) == {sprintf("rules[0] lets serviceaccount shop/web change admission control: %s", [change])}
	}
}

test_whole_result if {
	role := {"rules": [make.allow([""], ["pods"], ["get"]), make.allow([""], ["secrets", "configmaps"], ["list"])]}
	with_bindings(object.union(make.cluster_role({}), role), [to_account]) == {{
		"msg": "rules[1] lets serviceaccount shop/web read all Secrets: set resourceNames",
		"details": {"field": "rules[1].resources", "value": ["configmaps", "secrets"], "subjects": ["serviceaccount shop/web"]},
	}}
}

test_every_form_of_a_right if {
	every rule in array.concat(
		[make.allow([""], ["secrets"], [verb]) | some verb in ["get", "list", "watch"]],
		[make.allow([""], [resource], [verb]) |
			some resource in ["pods/exec", "*/exec", "pods/attach", "*/attach", "pods/portforward", "*/portforward"]
			some verb in ["create", "get"]
		],
	) {
		count(found(rule)) == 1
	}
	every verb in ["create", "delete", "get", "patch", "update"] {
		count(found(make.allow([""], ["nodes/proxy"], [verb]))) == 1
	}
	every verb in ["create", "delete", "deletecollection", "patch", "update"] {
		every resource in [
			"mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "mutatingwebhookconfigurations",
			"validatingadmissionpolicies", "validatingadmissionpolicybindings", "validatingwebhookconfigurations",
		] {
			count(found(make.allow(["admissionregistration.k8s.io"], [resource], [verb]))) == 1
		}
	}
	every rule in [
		make.allow([""], ["*/proxy"], ["get"]),
		make.allow([""], ["*/token"], ["create"]),
		make.allow(["certificates.k8s.io"], ["*/approval"], ["patch"]),
		make.allow(["certificates.k8s.io"], ["signers"], ["sign"]),
		make.allow(["*"], ["secrets"], ["get"]),
		make.allow(["", "apps"], ["pods", "secrets"], ["delete", "get"]),
		make.named(secrets, null),
		make.named(secrets, []),
		make.named(secrets, [null]),
	] {
		count(found(rule)) == 1
	}
}

test_other_rights if {
	every rule in [
		make.allow([""], ["secrets"], ["create", "delete", "deletecollection", "patch", "update"]),
		make.allow(["example.com"], ["secrets", "pods/exec", "nodes/proxy", "serviceaccounts/token"], ["create", "get"]),
		make.allow([""], ["configmaps", "pods", "pods/log", "nodes", "nodes/stats", "serviceaccounts", "secrets/status"], ["create", "get"]),
		make.allow([""], ["pods/exec", "pods/attach", "pods/portforward"], ["delete", "list", "watch"]),
		make.allow([""], ["serviceaccounts/token"], ["get"]),
		make.allow([""], ["nodes/proxy"], ["list", "watch"]),
		make.allow(["admissionregistration.k8s.io"], ["mutatingwebhookconfigurations"], ["get", "list", "watch"]),
		make.allow([""], ["mutatingwebhookconfigurations"], ["update"]),
		make.allow(["certificates.k8s.io"], ["certificatesigningrequests", "certificatesigningrequests/status"], ["update"]),
		make.allow(["certificates.k8s.io"], ["signers", "certificatesigningrequests/approval"], ["get"]),
		make.allow(["cert-manager.io"], ["signers"], ["approve"]),
		# The API server knows no wildcard for subresources of one resource.
		make.allow([""], ["pods/*", "secrets/*", "nodes/*"], ["create", "get"]),
		{"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
		make.allow([""], ["secrets"], null),
		make.allow([""], null, ["get"]),
		make.allow(null, ["secrets"], ["get"]),
		{},
	] {
		count(found(rule)) == 0
	}
}

test_named_objects if {
	every rule in rights {
		count(found(make.named(rule, ["web"]))) == 0
	}
}

test_client_signers if {
	every name in ["kubernetes.io/*", "kubernetes.io/kube-apiserver-client", "kubernetes.io/kube-apiserver-client-kubelet"] {
		count(found(make.named(signers, ["example.com/web", name]))) == 1
	}
	count(found(make.named(signers, ["kubernetes.io/kubelet-serving"]))) == 0

	# A name of a signer has no meaning in other rules.
	count(found(make.named(secrets, ["kubernetes.io/*"]))) == 0
}

test_approval_for_named_signers if {
	role := {"rules": [approval, make.named(signers, ["kubernetes.io/kubelet-serving"])]}
	count(with_bindings(object.union(make.cluster_role({}), role), [to_account])) == 0
	both := {"rules": [approval, signers]}
	fields := build.fields(with_bindings(object.union(make.cluster_role({}), both), [to_account]))
	fields == {"rules[1].resources"}
}

# RBAC-01, RBAC-02 and RBAC-03 report these rules.
test_wildcards if {
	every rule in [
		make.allow([""], ["secrets", "pods/exec", "nodes/proxy"], ["*"]),
		make.allow([""], ["*"], ["get", "list"]),
		make.allow([""], ["secrets", "*"], ["get"]),
		make.allow(["*"], ["secrets"], ["get", "update"]),
		make.everything,
	] {
		count(found(rule)) == 0
	}
}

test_roles_without_bindings if {
	every rule in rights {
		every role in [make.cluster_role(rule), make.in_namespace("shop", make.role(rule)), make.role(rule)] {
			count(with_bindings(role, [])) == 0
			count(with_bindings(role, [make.binding("ClusterRoleBinding", "api", [make.account("web")])])) == 0
			count(with_bindings(role, [make.binding("ClusterRoleBinding", "web", null)])) == 0
			count(with_bindings(role, [object.remove(to_account, ["subjects"])])) == 0
		}
	}
}

test_rights_in_namespaces if {
	every rule in [secrets, exec, ports, tokens] {
		every bindings in [[in_shop], [make.binding("RoleBinding", "web", [make.account("web")])]] {
			{severity(result) | some result in with_bindings(make.cluster_role(rule), bindings)} == {"medium"}
		}
		role := make.in_namespace("shop", make.role(rule))
		{severity(result) | some result in with_bindings(role, [make.to_role(in_shop)])} == {"medium"}
	}

	own := with_bindings(make.in_namespace("shop", make.role(secrets)), [make.to_role(in_shop)])
	build.messages(own) == {"rules[0] lets serviceaccount shop/web read all Secrets of the namespace: set resourceNames"}
	shared := with_bindings(make.cluster_role(secrets), [in_shop])
	build.messages(shared) == {"rules[0] lets serviceaccount shop/web read all Secrets of some namespaces: set resourceNames"}

	# Port-forward alone has the severity medium in the whole cluster, too.
	{severity(result) | some rule in [secrets, exec, tokens]; some result in found(rule)} == {"as the rule's"}
	{severity(result) | some result in found(ports)} == {"medium"}
	both := make.allow([""], ["pods/exec", "pods/portforward"], ["create"])
	{severity(result) | some result in found(both)} == {"as the rule's"}
	count(found(both)) == 1
}

test_cluster_scoped_resources_in_namespaces if {
	every rule in [proxy, webhooks, signers, approval] {
		count(with_bindings(make.cluster_role(rule), [in_shop])) == 0
		count(with_bindings(make.in_namespace("shop", make.role(rule)), [make.to_role(in_shop)])) == 0
	}
}

test_widest_binding_counts if {
	api := make.in_namespace("shop", make.binding("RoleBinding", "web", [make.account("api")]))
	some result in with_bindings(make.cluster_role(secrets), [to_account, api])
	severity(result) == "as the rule's"
	result.details.subjects == ["serviceaccount shop/web"]
}

test_roles_of_other_kinds_and_namespaces if {
	role := make.in_namespace("shop", make.role(secrets))
	elsewhere := make.in_namespace("bank", make.to_role(in_shop))
	count(with_bindings(role, [in_shop])) == 0
	count(with_bindings(role, [elsewhere])) == 0
	count(with_bindings(role, [to_account])) == 0
	count(with_bindings(role, [make.to_role(to_account)])) == 0
	count(with_bindings(make.cluster_role(secrets), [make.to_role(in_shop)])) == 0
	count(with_bindings(make.cluster_role(secrets), [make.to_role(to_account)])) == 0

	# Manifests may leave the namespace of a role and its binding out.
	count(with_bindings(make.role(secrets), [make.to_role(make.binding("RoleBinding", "web", [make.account("web")]))])) == 1
}

# The API server ignores a namespace in the manifest of a ClusterRoleBinding.
test_cluster_role_binding_with_a_namespace if {
	some result in with_bindings(make.cluster_role(secrets), [make.in_namespace("shop", to_account)])
	severity(result) == "as the rule's"
}

test_subjects if {
	every subject, name in {
		make.user("ann"): "user ann",
		make.group("developers"): "group developers",
		make.account("web"): "serviceaccount shop/web",
		{"kind": "ServiceAccount", "name": "web"}: "serviceaccount web",
		{"kind": "ServiceAccount", "name": "web", "namespace": null}: "serviceaccount web",
		{"kind": "ServiceAccount", "name": "system:web", "namespace": "shop"}: "serviceaccount shop/system:web",
		make.group("system:authenticated"): "group system:authenticated",
		make.group("system:unauthenticated"): "group system:unauthenticated",
		make.group("system:serviceaccounts:shop"): "group system:serviceaccounts:shop",
		make.user("system:anonymous"): "user system:anonymous",
		make.user("system:serviceaccount:shop:web"): "user system:serviceaccount:shop:web",
		make.user("kubeadm:cluster-admins"): "user kubeadm:cluster-admins",
	} {
		some result in with_bindings(make.cluster_role(secrets), [make.binding("ClusterRoleBinding", "web", [subject])])
		result.details.subjects == [name]
		startswith(result.msg, sprintf("rules[0] lets %s read", [name]))
	}

	# The namespace of a binding is that of its ServiceAccounts.
	own := make.in_namespace("shop", make.binding("RoleBinding", "web", [{"kind": "ServiceAccount", "name": "web"}]))
	some result in with_bindings(make.cluster_role(secrets), [own])
	result.details.subjects == ["serviceaccount shop/web"]
}

test_several_subjects if {
	many := [make.user("d"), make.user("b"), make.user("system:kube-scheduler"), make.user("a"), make.user("c")]
	every subjects, named in {many: ["user a", "user b", "user c"], [make.user("b"), make.user("a")]: ["user a", "user b"]} {
		some result in with_bindings(make.cluster_role(secrets), [make.binding("ClusterRoleBinding", "web", subjects)])
		result.msg == "rules[0] lets user a and others read all Secrets: set resourceNames"
		result.details.subjects == named
	}
}

test_subjects_of_the_control_plane if {
	every subject in [
		make.user("system:kube-controller-manager"),
		make.user("system:kube-scheduler"),
		make.user("system:node:a"),
		make.group("system:masters"),
		make.group("system:nodes"),
		make.group("system:bootstrappers:kubeadm:default-node-token"),
		make.group("kubeadm:cluster-admins"),
		{"kind": "Node", "name": "a"},
		{"kind": "User"},
		{},
	] {
		count(with_bindings(make.cluster_role(secrets), [make.binding("ClusterRoleBinding", "web", [subject])])) == 0
	}
}

test_builtin_roles if {
	every name in ["admin", "edit", "system:controller:token-cleaner"] {
		role := make.builtin(name, make.cluster_role(secrets))
		bound := make.binding("ClusterRoleBinding", name, [make.account("web")])
		count(with_bindings(role, [bound])) == 0
		own := object.union(role, {"metadata": {"labels": {"kubernetes.io/bootstrapping": "no"}}})
		count(with_bindings(own, [bound])) == 1
	}
}

test_other_kinds if {
	every change in [
		{"apiVersion": "example.com/v1"},
		{"kind": "ClusterRoleTemplate"},
		{"rules": null},
		{"rules": "all"},
		{"rules": [null]},
		{"metadata": null},
	] {
		role := object.union(make.cluster_role(secrets), change)
		count(with_bindings(role, [to_account])) == 0
	}

	# The rules of a role are not those of a binding.
	count(with_bindings(object.union(to_account, {"rules": [secrets]}), [to_account])) == 0
}
