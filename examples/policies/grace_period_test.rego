package user.grace_period_test

import rego.v1

import data.user.grace_period

stateful_set(seconds) := {
	"kind": "StatefulSet",
	"metadata": {"name": "db"},
	"spec": {"template": {"spec": {"terminationGracePeriodSeconds": seconds}}},
}

test_without_time if {
	some result in grace_period.deny with input as stateful_set(0)
	result.msg == "pods of db are killed without time to stop"
}

test_with_time if {
	count(grace_period.deny) == 0 with input as stateful_set(30)
}
