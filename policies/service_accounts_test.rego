package service_accounts_test

import data.lib.build_rbac_test as make
import data.lib.build_test as build

# For the pages of the rules; `beside` are the other objects of the example.
examples := {
	"warn_default_token": {
		"violating": build.small({}, {}),
		"correct": build.small({"automountServiceAccountToken": false}, {}),
	},
	"deny_powerful_pod": {
		"violating": build.small({"serviceAccountName": "web"}, {}),
		"correct": build.small({"serviceAccountName": "web", "automountServiceAccountToken": false}, {}),
		"beside": [make.binding("ClusterRoleBinding", "edit", [make.account("web")])],
	},
	"warn_unused_token": {
		"violating": own_account,
		"correct": object.union(own_account, {"automountServiceAccountToken": false}),
		"beside": [build.small({"serviceAccountName": "web"}, {})],
	},
}

own_account := {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "web"}}

test_examples if {
	every name in ["deny_powerful_pod", "warn_unused_token"] {
		inventory := build.inventory(examples[name].beside)
		count(data.service_accounts[name]) == 1 with input as examples[name].violating with data.inventory as inventory
		count(data.service_accounts[name]) == 0 with input as examples[name].correct with data.inventory as inventory
	}
}

test_default_account if {
	every spec in [
		{},
		{"serviceAccountName": ""},
		{"serviceAccountName": null},
		{"serviceAccountName": "default"},
		{"serviceAccount": "default"},
		{"serviceAccountName": null, "serviceAccount": ""},
		{"serviceAccountName": "default", "serviceAccount": "default"},
		{"automountServiceAccountToken": true},
		{"automountServiceAccountToken": null},
	] {
		every workload in build.workloads(spec) {
			count(data.service_accounts.warn_default_token) == 1 with input as workload
		}
	}
}

test_no_token_or_own_account if {
	every spec in [
		{"automountServiceAccountToken": false},
		{"serviceAccountName": "default", "automountServiceAccountToken": false},
		{"serviceAccountName": "web"},
		{"serviceAccount": "web"},
		{"serviceAccountName": "web", "automountServiceAccountToken": true},
	] {
		every workload in build.workloads(spec) {
			count(data.service_accounts.warn_default_token) == 0 with input as workload
		}
	}
}

# A namespace whose accounts have these settings.
accounts(settings) := {"namespace": {"shop": {"v1": {"ServiceAccount": settings}}}}

in_shop(workload) := object.union(workload, {"metadata": {"namespace": "shop"}})

test_account_without_token if {
	inventory := accounts({"default": {"automountServiceAccountToken": false}})
	every spec in [{}, {"serviceAccountName": "default"}, {"automountServiceAccountToken": null}] {
		every workload in build.workloads(spec) {
			count(data.service_accounts.warn_default_token) == 0 with input as in_shop(workload) with data.inventory as inventory
		}
	}

	# The pod's own setting is the one that counts.
	every workload in build.workloads({"automountServiceAccountToken": true}) {
		count(data.service_accounts.warn_default_token) == 1 with input as in_shop(workload) with data.inventory as inventory
	}
}

test_account_with_token if {
	every settings in [
		{"default": {}},
		{"default": {"automountServiceAccountToken": null}},
		{"default": {"automountServiceAccountToken": true}},
		{"web": {"automountServiceAccountToken": false}},
	] {
		every workload in build.workloads({}) {
			count(data.service_accounts.warn_default_token) == 1 with input as in_shop(workload) with data.inventory as accounts(settings)
		}
	}
}

test_account_of_another_namespace if {
	inventory := accounts({"default": {"automountServiceAccountToken": false}})
	every workload in build.workloads({}) {
		elsewhere := object.union(workload, {"metadata": {"namespace": "bank"}})
		count(data.service_accounts.warn_default_token) == 1 with input as elsewhere with data.inventory as inventory
		count(data.service_accounts.warn_default_token) == 1 with input as workload with data.inventory as inventory
	}
}

test_account_and_manifests_without_namespace if {
	inventory := {"cluster": {"v1": {"ServiceAccount": {"default": {"automountServiceAccountToken": false}}}}}
	every workload in build.workloads({}) {
		count(data.service_accounts.warn_default_token) == 0 with input as workload with data.inventory as inventory
		count(data.service_accounts.warn_default_token) == 1 with input as in_shop(workload) with data.inventory as inventory
	}
}

# A Pod that was created before the account disabled its token still has it.
test_pod_with_a_token_volume if {
	inventory := accounts({"default": {"automountServiceAccountToken": false}})
	mounts := [{"name": "tmp", "mountPath": "/tmp"}, {"name": "kube-api-access-x7k2p", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]
	every list in ["containers", "initContainers"] {
		pod := in_shop(build.pod({list: [{"name": "web", "volumeMounts": mounts}]}))
		count(data.service_accounts.warn_default_token) == 1 with input as pod with data.inventory as inventory
	}
	other := in_shop(build.pod({"containers": [{"name": "web", "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}]}]}))
	count(data.service_accounts.warn_default_token) == 0 with input as other with data.inventory as inventory
}

test_mirror_pod if {
	mirror := object.union(build.pod({}), {"metadata": {"annotations": {"kubernetes.io/config.mirror": "a1b2"}}})
	count(data.service_accounts.warn_default_token) == 0 with input as mirror
}

test_default_token_result if {
	results := data.service_accounts.warn_default_token with input as build.pod({"automountServiceAccountToken": true})
	results == {{
		"msg": "pod has a token of the default ServiceAccount: set automountServiceAccountToken: false or a serviceAccountName",
		"details": {"field": "spec.automountServiceAccountToken", "value": true},
	}}
}
