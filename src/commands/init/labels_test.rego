package own.labels_test

import data.own.labels

test_without_a_team if {
	every kind in ["CronJob", "DaemonSet", "Deployment", "StatefulSet"] {
		count(labels.warn_missing_team) == 1 with input as {"kind": kind, "metadata": {"name": "web"}}
	}
}

test_with_a_team if {
	named := {"name": "web", "labels": {"team": "shop"}}
	count(labels.warn_missing_team) == 0 with input as {"kind": "Deployment", "metadata": named}
}

test_other_kinds if {
	count(labels.warn_missing_team) == 0 with input as {"kind": "ConfigMap", "metadata": {"name": "web"}}
}
