package secrets_test

import data.lib.build_test as build

# For the pages of the rules.
examples := {
	"deny_literal_secret": {
		"violating": build.small({}, {"env": [{"name": "DB_PASSWORD", "value": "hunter2"}]}),
		"correct": build.small({}, {"env": [{"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}}]}),
	},
}

test_secret_names if {
	every name in [
		"PASSWORD",
		"DB_PASSWORD",
		"PGPASSWORD",
		"db.password",
		"dbPassword",
		"DB_PASS",
		"MYSQL_PWD",
		"API_KEY",
		"APIKEY",
		"STRIPE_API_KEY",
		"AWS_SECRET_ACCESS_KEY",
		"SECRET_KEY_BASE",
		"JWT_SECRET",
		"GITHUB_TOKEN",
		"SSH_PRIVATE_KEY",
		"KEY_PASSPHRASE",
		"REGISTRY_CREDENTIALS",
	] {
		every workload in build.with_container({"env": [{"name": name, "value": "hunter2"}]}) {
			count(data.secrets.deny_literal_secret) == 1 with input as workload
		}
	}
}

test_other_names if {
	every name in [
		"PASSWORD_FILE",
		"DB_PASSWORD_MIN_LENGTH",
		"TOKEN_URL",
		"TOKEN_TTL_SECONDS",
		"MAX_TOKENS",
		"SECRET_NAME",
		"API_KEY_HEADER",
		"BYPASS",
		"PWD_HISTORY",
		"CACHE_KEY",
		"MONKEY",
	] {
		count(data.secrets.deny_literal_secret) == 0 with input as build.pod_with_container({"env": [{"name": name, "value": "hunter2"}]})
	}
}

test_no_literals if {
	every variable in [
		{"name": "DB_PASSWORD"},
		{"name": "DB_PASSWORD", "value": ""},
		{"name": "DB_PASSWORD", "value": null},
		{"name": "DB_PASSWORD", "value": "$(SHARED_PASSWORD)"},
		{"name": "ALLOW_EMPTY_PASSWORD", "value": "yes"},
		{"name": "REQUIRE_TOKEN", "value": "True"},
		{"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}},
	] {
		count(data.secrets.deny_literal_secret) == 0 with input as build.pod_with_container({"env": [variable]})
	}
	count(data.secrets.deny_literal_secret) == 0 with input as build.pod_with_container({"env": null})
}

test_paths_references_and_numbers if {
	every variable in [
		{"name": "GOOGLE_APPLICATION_CREDENTIALS", "value": "/var/secrets/cloud/key.json"},
		{"name": "VAULT_TOKEN", "value": "/vault/token"},
		{"name": "MAX_TOKEN", "value": "4096"},
		{"name": "RATE_LIMIT_BY_API_KEY", "value": "1"},
		{"name": "DB_PASSWORD", "value": "vault:secret/data/db#password"},
		{"name": "DB_PASSWORD", "value": "ref+awsssm://db/password"},
		{"name": "DB_PASSWORD", "value": "$(A)$(B)"},
		{"name": "ETCD_INITIAL_CLUSTER_TOKEN", "value": "etcd-cluster-1"},
		{"name": "DATABASE_URL", "value": "postgres://app:$(PASSWORD)@db/app"},
		{"name": "DATABASE_URL", "value": "postgres://app@db/app"},
		{"name": "PROXY", "value": "http://proxy:8080/a@b"},
		{"name": "CA", "value": "-----BEGIN CERTIFICATE-----"},
	] {
		count(data.secrets.deny_literal_secret) == 0 with input as build.pod_with_container({"env": [variable]})
	}
}

test_secrets_by_name_and_by_value if {
	every variable in [
		{"name": "DB_PASSWORD", "value": "123456"},
		{"name": "DB_PASSWORD", "value": "/hunter 2"},
		{"name": "JWT_SIGNING_SECRET_VALUE", "value": "s3cr3t"},
		{"name": "JWT_SECRET", "value": "s3cr3t"},
		{"name": "DATABASE_URL", "value": "postgres://app:hunter2@db/app"},
		{"name": "REDIS", "value": "redis://:hunter2@cache:6379"},
		{"name": "SSH_KEY", "value": "-----BEGIN OPENSSH PRIVATE KEY-----"},
		{"name": "PEM", "value": "-----BEGIN PRIVATE KEY-----"},
	] {
		results := data.secrets.deny_literal_secret with input as build.pod_with_container({"env": [variable]})
		count(results) == 1
		every result in results {
			object.get(result, "severity", "as the rule's") == "as the rule's"
		}
	}
}

test_names_of_secrets_are_minor if {
	every variable in [
		{"name": "IMAGE_PULL_SECRET", "value": "regcred"},
		{"name": "TLS_CERT_SECRET", "value": "web-tls"},
	] {
		results := data.secrets.deny_literal_secret with input as build.pod_with_container({"env": [variable]})
		{result.severity | some result in results} == {"low"}
	}
}

test_value_is_not_repeated if {
	pod := build.pod_with_container({"env": [{"name": "A", "value": "a"}, {"name": "DB_PASSWORD", "value": "hunter2"}]})
	results := data.secrets.deny_literal_secret with input as pod
	results == {{
		"msg": "container \"web\" has the secret DB_PASSWORD as plain text: use valueFrom.secretKeyRef",
		"details": {"container": "web", "field": "spec.containers[0].env[1].value", "value": "DB_PASSWORD"},
	}}
}
