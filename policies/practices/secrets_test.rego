package practices.secrets_test

import data.lib.build_test as build

# For the pages of the rules.
examples := {"warn_secret_variables": {
	"violating": build.small({}, {"env": [{"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}}]}),
	"correct": build.small(
		{"volumes": [{"name": "db", "secret": {"secretName": "db"}}]},
		{"volumeMounts": [{"name": "db", "mountPath": "/run/secrets/db", "readOnly": true}]},
	),
}}

variable(name) := {"name": "A", "valueFrom": {"secretKeyRef": {"name": name, "key": "a"}}}

test_variables if {
	every workload in build.with_container({"env": [{"name": "LOG_LEVEL", "value": "info"}, variable("db")]}) {
		results := data.practices.secrets.warn_secret_variables with input as workload
		count(results) == 1
		every result in results {
			endswith(result.details.field, ".env[1].valueFrom.secretKeyRef")
			result.details.value == ["db"]
		}
	}
}

test_all_keys_of_a_secret if {
	every workload in build.with_container({"envFrom": [{"configMapRef": {"name": "settings"}}, {"prefix": "DB_", "secretRef": {"name": "db"}}]}) {
		results := data.practices.secrets.warn_secret_variables with input as workload
		count(results) == 1
		every result in results {
			endswith(result.details.field, ".envFrom[1].secretRef")
			result.details.value == ["db"]
		}
	}
}

test_one_result_for_each_container if {
	pod := build.pod({"containers": [
		{"name": "a", "env": [variable("db"), variable("api"), variable("db")], "envFrom": [{"secretRef": {"name": "keys"}}]},
		{"name": "b", "env": [variable("db")]},
	]})
	results := data.practices.secrets.warn_secret_variables with input as pod
	results == {
		{
			"msg": "container \"a\" has Secrets in environment variables: mount them as volumes",
			"details": {"container": "a", "field": "spec.containers[0].envFrom[0].secretRef", "value": ["api", "db", "keys"]},
		},
		{
			"msg": "container \"b\" has Secrets in environment variables: mount them as volumes",
			"details": {"container": "b", "field": "spec.containers[1].env[0].valueFrom.secretKeyRef", "value": ["db"]},
		},
	}
}

test_other_sources if {
	every patch in [
		{"env": null, "envFrom": null},
		{"env": [], "envFrom": []},
		{"env": [{"name": "A", "value": "a"}, {"name": "B", "valueFrom": null}]},
		{"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}}]},
		{"env": [{"name": "A", "valueFrom": {"secretKeyRef": null}}]},
		{"envFrom": [{"configMapRef": {"name": "settings"}}, {"secretRef": null}]},
	] {
		count(data.practices.secrets.warn_secret_variables) == 0 with input as build.pod_with_container(patch)
	}
}

test_volumes if {
	pod := build.small({"volumes": [{"name": "db", "secret": {"secretName": "db"}}]}, {})
	count(data.practices.secrets.warn_secret_variables) == 0 with input as pod
}

test_other_kinds if {
	pod := build.pod_with_container({"env": [variable("db")]})
	count(data.practices.secrets.warn_secret_variables) == 0 with input as object.union(pod, {"apiVersion": "example.com/v1"})
}
