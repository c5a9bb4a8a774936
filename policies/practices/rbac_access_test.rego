package practices.rbac_access_test

import data.lib.build_rbac_test as make
import data.lib.build_test as build
import data.practices.rbac_access

# For the pages of the rules; `beside` are the other objects of the example.
examples := {name: {"violating": violating, "correct": correct, "beside": [to_account]} |
	some name, [wrong, right] in {
		"deny_role_changes": [roles, make.allow(["rbac.authorization.k8s.io"], ["rolebindings"], ["get"])],
		"deny_volume_creation": [volumes, make.allow([""], ["persistentvolumeclaims"], ["create"])],
		"warn_workload_creation": [workloads, make.allow(["apps"], ["deployments"], ["delete", "get"])],
	}
	violating := make.cluster_role(wrong)
	correct := make.cluster_role(right)
}

roles := make.allow(["rbac.authorization.k8s.io"], ["rolebindings"], ["create", "get"])

volumes := make.allow([""], ["persistentvolumes"], ["create"])

workloads := make.allow(["apps"], ["deployments"], ["create", "get"])

to_account := make.binding("ClusterRoleBinding", "web", [make.account("web")])

in_shop := make.in_namespace("shop", make.to_role(make.binding("RoleBinding", "web", [make.account("web")])))

results := union({rbac_access.deny_role_changes, rbac_access.deny_volume_creation, rbac_access.warn_workload_creation})

found(rule) := with_bindings(make.cluster_role(rule), [to_account])

with_bindings(role, bindings) := found if {
	found := results with input as role with data.inventory as build.inventory(bindings)
}

test_examples if {
	every name, example in examples {
		inventory := build.inventory(example.beside)
		count(rbac_access[name]) == 1 with input as example.violating with data.inventory as inventory
		count(results) == 0 with input as example.correct with data.inventory as inventory
	}
}

test_messages if {
	every rule, message in {
		make.allow([""], ["services", "pods"], ["create"]): "run pods with any Secret or account: remove pods",
		make.allow(["", "apps"], ["pods", "deployments"], ["create"]): "run pods with any Secret or account: remove deployments, pods",
		make.allow(["rbac.authorization.k8s.io"], ["roles"], ["create", "get", "patch"]): "pass on rights: remove create, patch",
		volumes: "mount any path of a node: remove persistentvolumes",
	} {
		build.messages(found(rule)) == {sprintf("rules[0] lets serviceaccount shop/web %s", [message])}
	}
}

test_every_kind_of_workload if {
	every group, resources in {
		"": ["pods", "replicationcontrollers"],
		"apps": ["daemonsets", "deployments", "replicasets", "statefulsets"],
		"batch": ["cronjobs", "jobs"],
	} {
		every resource in resources {
			count(found(make.allow([group], [resource], ["create"]))) == 1
			count(found(make.allow(["example.com"], [resource], ["create"]))) == 0
		}
	}

	# A resource of another group has no effect.
	count(found(make.allow([""], ["deployments", "jobs"], ["create"]))) == 0
	every verb in ["delete", "get", "list", "watch"] {
		count(found(make.allow(["apps"], ["deployments"], [verb]))) == 0
	}
}

test_templates if {
	every verb in ["patch", "update"] {
		every group, resource in {"": "replicationcontrollers", "apps": "deployments", "batch": "cronjobs"} {
			count(found(make.allow([group], [resource], [verb]))) == 1
		}
		every group, resource in {"": "pods", "batch": "jobs"} {
			count(found(make.allow([group], [resource], [verb]))) == 0
		}
	}
}

test_every_kind_of_role if {
	every resource in ["clusterrolebindings", "clusterroles", "rolebindings", "roles"] {
		every verb in ["create", "patch", "update"] {
			count(found(make.allow(["rbac.authorization.k8s.io"], [resource], [verb]))) == 1
		}
		count(found(make.allow(["rbac.authorization.k8s.io"], [resource], ["delete", "get", "list", "watch"]))) == 0
		count(found(make.allow([""], [resource], ["create"]))) == 0
	}
}

# RBAC-04 reports these.
test_escalation if {
	every verb in ["bind", "escalate"] {
		count(found(make.allow(["rbac.authorization.k8s.io"], ["clusterroles"], ["create", verb]))) == 0
		count(found(make.allow(["rbac.authorization.k8s.io"], ["rolebindings"], ["create", verb]))) == 1
	}
}

test_other_volumes if {
	count(found(make.allow([""], ["persistentvolumes"], ["delete", "get", "patch"]))) == 0
	count(found(make.allow([""], ["persistentvolumeclaims"], ["create"]))) == 0
	count(found(make.allow(["example.com"], ["persistentvolumes"], ["create"]))) == 0
}

test_named_objects if {
	every rule in [roles, volumes, workloads] {
		count(found(make.named(rule, ["web"]))) == 0
	}
}

test_wildcards if {
	every rule in [make.everything, make.allow([""], ["pods", "persistentvolumes"], ["*"]), make.allow(["apps"], ["*"], ["create"])] {
		count(found(rule)) == 0
	}
}

test_bindings if {
	every rule in [roles, volumes, workloads] {
		count(with_bindings(make.cluster_role(rule), [])) == 0
		count(with_bindings(make.builtin("system:web", make.cluster_role(rule)), [to_account])) == 0
		count(with_bindings(object.union(make.cluster_role(rule), {"apiVersion": "example.com/v1"}), [to_account])) == 0
	}
	every rule in [roles, workloads] {
		count(with_bindings(make.in_namespace("shop", make.role(rule)), [in_shop])) == 1
	}
	count(with_bindings(make.in_namespace("shop", make.role(volumes)), [in_shop])) == 0
	api := make.in_namespace("shop", make.binding("RoleBinding", "web", [make.account("api")]))
	some result in with_bindings(make.cluster_role(workloads), [to_account, api])
	result.details.subjects == ["serviceaccount shop/web"]
}
