package service_accounts_test

import data.lib.build_test as build

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

test_mirror_pod if {
	mirror := object.union(build.pod({}), {"metadata": {"annotations": {"kubernetes.io/config.mirror": "a1b2"}}})
	count(data.service_accounts.warn_default_token) == 0 with input as mirror
}
