package service_accounts_test

import data.lib.build_rbac_test as make
import data.lib.build_test as build

everywhere(name) := make.binding("ClusterRoleBinding", name, [make.account("web")])

role(name, rules) := {"apiVersion": make.version, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}

read_secrets := make.allow([""], ["secrets"], ["get"])

# The inventory in which the ServiceAccount shop/web has a ClusterRole with this rule.
granting(rule) := build.inventory([role("web", [make.allow([""], ["pods"], ["get"]), rule]), everywhere("web")])

powerful(pod, inventory) := found if {
	found := data.service_accounts.deny_powerful_pod with input as pod with data.inventory as inventory
}

pod := in_shop(build.pod({"serviceAccountName": "web"}))

test_powerful_pod_of_every_kind if {
	every spec in [{"serviceAccountName": "web"}, {"serviceAccount": "web"}, {"serviceAccountName": "web", "automountServiceAccountToken": true}] {
		every workload in build.workloads(spec) {
			some result in powerful(in_shop(workload), granting(read_secrets))
			result.msg == "pod may read all Secrets by ClusterRole \"web\": reduce the role, or mount no token"
			endswith(result.details.field, "spec.serviceAccountName")
			object.remove(result.details, ["field"]) == {"value": "web", "role": "web"}
		}
	}
}

test_every_right if {
	every rule, may in {
		make.everything: "do everything",
		make.allow(["rbac.authorization.k8s.io"], ["clusterroles"], ["escalate"]): "take all rights",
		make.allow(["rbac.authorization.k8s.io"], ["roles"], ["bind"]): "take all rights",
		make.allow(["rbac.authorization.k8s.io"], ["clusterroles"], ["*"]): "take all rights",
		make.allow([""], ["users"], ["impersonate"]): "take all rights",
		make.allow([""], ["nodes/proxy"], ["get"]): "run commands on all nodes",
		make.allow([""], ["serviceaccounts/token"], ["create"]): "create tokens of all ServiceAccounts",
		make.allow(["admissionregistration.k8s.io"], ["mutatingwebhookconfigurations"], ["patch"]): "change admission control",
		make.allow(["certificates.k8s.io"], ["signers"], ["sign"]): "approve client certificates",
		make.allow([""], ["pods/exec"], ["create"]): "run commands in all pods",
		make.allow([""], ["secrets"], ["*"]): "read all Secrets",
		make.allow([""], ["*"], ["list"]): "read all Secrets",
	} {
		build.messages(powerful(pod, granting(rule))) == {sprintf("pod may %s by ClusterRole \"web\": reduce the role, or mount no token", [may])}
	}
}

test_rights_that_are_not_powerful if {
	every rule in [
		make.allow([""], ["pods", "configmaps"], ["*"]),
		make.allow(["apps"], ["*"], ["*"]),
		make.allow([""], ["pods/portforward"], ["create"]),
		make.allow(["certificates.k8s.io"], ["certificatesigningrequests/approval"], ["update"]),
		make.named(make.allow([""], ["users"], ["impersonate"]), ["ann"]),
		make.named(make.allow(["rbac.authorization.k8s.io"], ["clusterroles"], ["bind"]), ["view"]),
		make.named(read_secrets, ["web"]),
		{"nonResourceURLs": ["*"], "verbs": ["*"]},
		{},
		null,
	] {
		count(powerful(pod, granting(rule))) == 0
	}
}

test_strongest_right if {
	inventory := build.inventory([
		role("a", [read_secrets]),
		role("b", [read_secrets, make.allow([""], ["pods/exec", "nodes/proxy"], ["create"])]),
		object.union(everywhere("a"), {"metadata": {"name": "a"}}),
		object.union(everywhere("b"), {"metadata": {"name": "b"}}),
	])
	build.messages(powerful(pod, inventory)) == {"pod may run commands on all nodes by ClusterRole \"b\": reduce the role, or mount no token"}
}

test_builtin_roles_by_name if {
	every name, may in {"admin": "read all Secrets", "cluster-admin": "do everything", "edit": "read all Secrets"} {
		results := powerful(pod, build.inventory([everywhere(name)]))
		build.messages(results) == {sprintf("pod may %s by ClusterRole \"%s\": reduce the role, or mount no token", [may, name])}
	}
	every name in ["view", "web"] {
		count(powerful(pod, build.inventory([everywhere(name)]))) == 0
	}
}

test_other_subjects_and_bindings if {
	roles := role("web", [read_secrets])
	every subject in [
		make.account("api"),
		make.user("web"),
		make.group("web"),
		{"kind": "ServiceAccount", "name": "web", "namespace": "bank"},
		{"kind": "ServiceAccount", "name": "web"},
		object.union(make.account("web"), {"kind": "User"}),
		{},
	] {
		count(powerful(pod, build.inventory([roles, make.binding("ClusterRoleBinding", "web", [subject])]))) == 0
	}
	count(powerful(pod, build.inventory([roles, make.binding("ClusterRoleBinding", "api", [make.account("web")])]))) == 0
	count(powerful(pod, build.inventory([roles, make.binding("ClusterRoleBinding", "web", null)]))) == 0
	count(powerful(pod, build.inventory([roles, in_shop(make.binding("RoleBinding", "web", [make.account("web")]))]))) == 0

	# The pod is in the namespace of the subject if its manifest has none.
	count(powerful(build.pod({"serviceAccountName": "web"}), granting(read_secrets))) == 1
	count(powerful(build.pod({"serviceAccountName": "api"}), granting(read_secrets))) == 0
}

test_one_of_several_subjects if {
	binding := make.binding("ClusterRoleBinding", "web", [make.user("ann"), make.account("web")])
	count(powerful(pod, build.inventory([role("web", [read_secrets]), binding]))) == 1
}

test_powerful_default_account if {
	inventory := build.inventory([role("web", [read_secrets]), make.binding("ClusterRoleBinding", "web", [make.account("default")])])
	every workload in build.workloads({}) {
		count(powerful(in_shop(workload), inventory)) == 1
	}
}

test_powerful_account_without_token if {
	objects := [role("web", [read_secrets]), everywhere("web")]
	quiet := in_shop({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "web"}, "automountServiceAccountToken": false})
	every workload in build.workloads({"serviceAccountName": "web"}) {
		count(powerful(in_shop(workload), build.inventory(array.concat(objects, [quiet])))) == 0
		count(powerful(in_shop(workload), build.inventory(array.concat(objects, [object.union(quiet, {"metadata": {"name": "api"}})])))) == 1
	}
	every workload in build.workloads({"serviceAccountName": "web", "automountServiceAccountToken": true}) {
		count(powerful(in_shop(workload), build.inventory(array.concat(objects, [quiet])))) == 1
	}
	every workload in build.workloads({"serviceAccountName": "web", "automountServiceAccountToken": false}) {
		count(powerful(in_shop(workload), build.inventory(objects))) == 0
	}
}

test_token_that_a_container_mounts if {
	every list in ["containers", "initContainers"] {
		every path, expected in {"/var/run/secrets/kubernetes.io/serviceaccount": 1, "/var/run/secrets/tokens": 0} {
			spec := {
				"serviceAccountName": "web",
				"automountServiceAccountToken": false,
				list: [{"name": "web", "volumeMounts": [{"name": "token", "mountPath": path}]}],
			}
			count(powerful(in_shop(build.pod(spec)), granting(read_secrets))) == expected
		}
	}
}

test_static_pods_hold_no_token if {
	mirror := object.union(pod, {"metadata": {"annotations": {"kubernetes.io/config.mirror": "a1b2"}}})
	count(powerful(mirror, granting(read_secrets))) == 0
}

test_generated_pods if {
	every owner, expected in {
		{"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": true}: 0,
		{"apiVersion": "batch/v1", "kind": "CronJob", "controller": true}: 0,
		{"apiVersion": "example.com/v1", "kind": "ReplicaSet", "controller": true}: 1,
		{"apiVersion": "v1", "kind": "ConfigMap", "controller": true}: 1,
		{"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": false}: 1,
		{"apiVersion": "apps/v1", "kind": "ReplicaSet"}: 1,
	} {
		owned := object.union(pod, {"metadata": {"ownerReferences": [owner]}})
		count(powerful(owned, granting(read_secrets))) == expected
	}
}

service_account := in_shop({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "web"}})

unused(account, objects) := found if {
	found := data.service_accounts.warn_unused_token with input as account with data.inventory as build.inventory(objects)
}

test_unused_token if {
	every workload in build.workloads({"serviceAccountName": "web"}) {
		expected := {"PodTemplate": 0}
		count(unused(service_account, [in_shop(workload)])) == object.get(expected, workload.kind, 1)
	}
	unused(service_account, [pod]) == {{
		"msg": "pods mount a token that has no rights: set automountServiceAccountToken: false",
		"details": {"field": "automountServiceAccountToken", "value": null},
	}}
	some result in unused(object.union(service_account, {"automountServiceAccountToken": true}), [pod])
	result.details.value == true
	count(unused(json.remove(service_account, ["metadata/namespace"]), [build.pod({"serviceAccountName": "web"})])) == 1
}

test_unused_token_that_nothing_mounts if {
	count(unused(service_account, [])) == 0
	count(unused(object.union(service_account, {"automountServiceAccountToken": false}), [pod])) == 0
	every spec in [
		{},
		{"serviceAccountName": "api"},
		{"serviceAccountName": "web", "automountServiceAccountToken": false},
		{"serviceAccountName": "web", "automountServiceAccountToken": true},
	] {
		count(unused(service_account, [in_shop(build.pod(spec))])) == 0
	}
	count(unused(service_account, [object.union(pod, {"metadata": {"namespace": "bank"}})])) == 0
}

test_default_account_is_not_unused if {
	default_account := object.union(service_account, {"metadata": {"name": "default"}})
	count(unused(default_account, [in_shop(build.pod({}))])) == 0
}

test_other_kinds_have_no_token if {
	every change in [{"kind": "ServiceAccountClaim"}, {"apiVersion": "example.com/v1"}] {
		count(unused(object.union(service_account, change), [pod])) == 0
	}
}

test_used_token if {
	every namespace in ["shop", "bank"] {
		binding := make.in_namespace(namespace, make.binding("RoleBinding", "view", [make.account("web")]))
		count(unused(service_account, [pod, binding])) == 0
	}
	every name in ["web", "view"] {
		count(unused(service_account, [pod, everywhere(name)])) == 0
	}
	every subjects in [[make.account("web")], [make.user("ann"), make.account("web")], [make.user("ann"), make.group("system:authenticated")]] {
		count(unused(service_account, [pod, make.binding("RoleBinding", "view", subjects)])) == 0
	}
	count(unused(service_account, [pod, make.in_namespace("shop", everywhere("view"))])) == 0
}

test_token_that_a_group_uses if {
	every subject in [
		make.group("system:serviceaccounts:shop"),
		make.group("system:serviceaccounts"),
		make.group("system:authenticated"),
		make.user("system:serviceaccount:shop:web"),
	] {
		count(unused(service_account, [pod, make.binding("ClusterRoleBinding", "view", [subject])])) == 0
	}
	every subject in [
		make.account("api"),
		{"kind": "ServiceAccount", "name": "web", "namespace": "bank"},
		{"kind": "ServiceAccount", "name": "system:authenticated", "namespace": "shop"},
		make.user("web"),
		object.union(make.account("web"), {"kind": "User"}),
		make.group("system:serviceaccounts:bank"),
		make.user("system:serviceaccount:shop:api"),
		{},
	] {
		every kind in ["ClusterRoleBinding", "RoleBinding"] {
			count(unused(service_account, [pod, make.binding(kind, "view", [subject])])) == 1
		}
	}
}

test_roles_that_everybody_has if {
	every name, subject in {
		"system:basic-user": "system:authenticated",
		"system:discovery": "system:authenticated",
		"system:service-account-issuer-discovery": "system:serviceaccounts",
	} {
		count(unused(service_account, [pod, make.binding("ClusterRoleBinding", name, [make.group(subject)])])) == 1
	}
}

test_account_with_another_identity if {
	every key, expected in {
		"eks.amazonaws.com/role-arn": 0,
		"iam.gke.io/gcp-service-account": 0,
		"azure.workload.identity/client-id": 0,
		"vault.hashicorp.com/role": 0,
		"serviceaccounts.openshift.io/oauth-redirectreference.web": 0,
		"example.com/team": 1,
	} {
		annotated := object.union(service_account, {"metadata": {"annotations": {key: "web"}}})
		count(unused(annotated, [pod])) == expected
	}
	count(unused(object.union(service_account, {"metadata": {"annotations": null}}), [pod])) == 1
	count(unused(json.remove(service_account, ["metadata/annotations"]), [pod])) == 1
}

test_pod_with_another_identity if {
	every annotations, expected in {
		{"vault.hashicorp.com/agent-inject": "true"}: 0,
		{"example.com/team": "shop"}: 1,
		null: 1,
	} {
		annotated := in_shop(build.templated("apps/v1", "Deployment", {"serviceAccountName": "web"}))
		patch := {"spec": {"template": {"metadata": {"annotations": annotations}}}}
		count(unused(service_account, [pod, object.union(annotated, patch)])) == expected
	}
}
