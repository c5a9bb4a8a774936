package lib.accounts_test

import data.lib.accounts
import data.lib.build_test as build

test_service_account if {
	every fields, account in {
		{}: {"field": "serviceAccountName", "name": "default"},
		{"serviceAccountName": null, "serviceAccount": ""}: {"field": "serviceAccountName", "name": "default"},
		{"serviceAccountName": "", "serviceAccount": null}: {"field": "serviceAccountName", "name": "default"},
		{"serviceAccountName": "web", "serviceAccount": "api"}: {"field": "serviceAccountName", "name": "web"},
		{"serviceAccount": "api"}: {"field": "serviceAccount", "name": "api"},
	} {
		every workload in build.workloads(fields) {
			accounts.named(data.lib.workload.spec) == account with input as workload
		}
	}
}
