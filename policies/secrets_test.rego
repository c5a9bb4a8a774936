package secrets_test

import data.lib.build_test as build

# For the pages of the rules.
examples := {
	"deny_literal_secret": {
		"violating": build.small({}, {"env": [{"name": "DB_PASSWORD", "value": "hunter2"}]}),
		"correct": build.small({}, {"env": [{"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}}]}),
	},
	"deny_config_map": {
		"violating": config_map({"LOG_LEVEL": "info", "DB_PASSWORD": "hunter2"}),
		"correct": config_map({"LOG_LEVEL": "info"}),
	},
	"deny_command_line": {
		"violating": build.small({}, {"args": ["--user=app", "--password=hunter2"]}),
		"correct": build.small({}, {
			"args": ["--user=app", "--password=$(DB_PASSWORD)"],
			"env": [{"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}}],
		}),
	},
}

config_map(content) := {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}, "data": content}

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
		{"name": "DB_PASSWORD", "value": 123456},
		{"name": null, "value": "redis://:hunter2@cache:6379"},
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
		{"name": "NEXT_PUBLIC_API_KEY", "value": "a1b2c3d4"},
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
		{"name": "API_TOKEN", "value": "regcred"},
		{"name": "DATABASE_URL", "value": "postgres://app:hunter2@db/app"},
		{"name": "REDIS", "value": "redis://:hunter2@cache:6379"},
		{"name": "SSH_KEY", "value": "-----BEGIN OPENSSH PRIVATE KEY-----"},
		{"name": "PEM", "value": "-----BEGIN PRIVATE KEY-----"},
		{"name": "CI", "value": concat("", ["glp", "at-abcdefghij0123456789"])},
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

test_config_map_keys if {
	every key, value in {
		"DB_PASSWORD": "hunter2",
		"db.password": "hunter",
		"password": "hunter2\n",
		"github-token": "a1b2c3d4",
	} {
		results := data.secrets.deny_config_map with input as config_map({"LOG_LEVEL": "info", key: value})
		results == {{
			"msg": sprintf("key \"%s\" holds a secret as plain text: move it to a Secret", [key]),
			"details": {"field": sprintf("data[\"%s\"]", [key]), "value": "a secret"},
		}}
	}
}

test_config_map_files if {
	every key in ["application", "application.yaml", "application.yml", "app.conf", "a.config", "a.cfg", "my.cnf", ".env", "a.ini", "a.properties", "a.sh", "a.toml"] {
		results := data.secrets.deny_config_map with input as config_map({key: "user: app\npassword: hunter2\n"})
		build.messages(results) == {sprintf("key \"%s\" holds the secret password as plain text: move it to a Secret", [key])}
	}
	json := data.secrets.deny_config_map with input as config_map({"a.json": `{"a": {"token": "a1b2c3d4"}, "b": {"api_key": "a1b2c3d4"}}`})
	{result.details.value | some result in json} == {"the secret token", "the secret api_key"}
	commented := data.secrets.deny_config_map with input as config_map({"a.json": "{\"password\":\n// For tests.\n\"hunter2\"}"})
	{result.details.value | some result in commented} == {"the secret password"}
}

test_config_map_forms if {
	every value, found in {
		"-----BEGIN RSA PRIVATE KEY-----\nAAAA": "a private key",
		"x -----BEGIN PRIVATE KEY-----\nAAAA": "a private key",
		"a\nurl = postgres://app:hunter2@db/app": "a URL with a password",
		sprintf("x %sat-abcdefghij0123456789", ["glp"]): "a token",
	} {
		every key in ["tls.key", "README.md"] {
			results := data.secrets.deny_config_map with input as config_map({key: value})
			{result.details.value | some result in results} == {found}
		}
	}
}

test_config_maps_without_secrets if {
	every key, value in {
		"ca.crt": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
		"id_rsa.pub": "-----BEGIN PUBLIC KEY-----\nAAAA",
		"PASSWORD_FILE": "/run/secrets/db",
		"DB_PASSWORD": "$(DB_PASSWORD)",
		"API_TOKEN": "",
		"REGISTRY_SECRET": "regcred",
		"MAX_TOKEN": "4096",
		"LOGIN_PASSWORD": "Enter your password",
		"README.md": "password: hunter2",
		"main.py": "password = 'hunter2'",
		"application.yaml": "# password: hunter2\n  # postgres://app:hunter2@db\n// postgres://app:hunter2@db\n; {\"password\": \"hunter2\"}",
	} {
		count(data.secrets.deny_config_map) == 0 with input as config_map({key: value})
	}
	every content in [null, {}, {"password": null}, {"password": 1}, "password"] {
		count(data.secrets.deny_config_map) == 0 with input as config_map(content)
	}
}

test_only_config_maps if {
	every change in [{"kind": "Secret"}, {"apiVersion": "example.com/v1"}] {
		other := object.union(config_map({"password": "hunter2"}), change)
		count(data.secrets.deny_config_map) == 0 with input as other
	}
}

test_command_lines if {
	every list in ["command", "args"] {
		every workload in build.with_container({list: ["run", "--user=app", "--password=hunter2"]}) {
			results := data.secrets.deny_command_line with input as workload
			count(results) == 1
			every result in results {
				result.details.value == "the secret password"
				endswith(result.details.field, sprintf(".%s[2]", [list]))
			}
		}
	}
}

test_commands_of_probes_and_hooks if {
	handler := {"exec": {"command": ["--password=hunter2"]}}
	every field, patch in {
		"livenessProbe": {"livenessProbe": handler},
		"readinessProbe": {"readinessProbe": handler},
		"startupProbe": {"startupProbe": handler},
		"lifecycle.postStart": {"lifecycle": {"postStart": handler}},
		"lifecycle.preStop": {"lifecycle": {"preStop": handler}},
	} {
		results := data.secrets.deny_command_line with input as build.pod_with_container(patch)
		build.fields(results) == {sprintf("spec.containers[0].%s.exec.command[0]", [field])}
	}

	# Fields that are similar to those of the rule.
	every patch in [{"flags": handler.exec.command}, {"otherProbe": handler}, {"lifecycle": {"preStart": handler}}] {
		count(data.secrets.deny_command_line) == 0 with input as build.pod_with_container(patch)
	}
}

test_command_lines_in_two_words_or_a_script if {
	every words in [
		["--password", "hunter2"],
		[1, "--password=hunter2"],
		["sh", "-c", "mysql -u app --password=hunter2 shop"],
		["migrate", "postgres://app:hunter2@db/app"],
		["--key", "-----BEGIN PRIVATE KEY-----"],
	] {
		count(data.secrets.deny_command_line) == 1 with input as build.pod_with_container({"args": words})
	}
}

test_command_lines_without_secrets if {
	every words in [
		null,
		[],
		["--password"],
		["--password", null],
		["--password", "$(DB_PASSWORD)"],
		["--password", "--user=app"],
		["sh", "-c", "--password=\"$DB_PASSWORD\""],
		["the password", "hunter2"],
		[1, {"password": "hunter2"}],
		["--token-file=/run/token"],
	] {
		count(data.secrets.deny_command_line) == 0 with input as build.pod_with_container({"args": words})
	}
	count(data.secrets.deny_command_line) == 0 with input as build.pod_with_container({"livenessProbe": null, "lifecycle": {"preStop": null}})
}

# SEC-01 reports them.
test_variables_are_no_command_line if {
	pod := build.pod_with_container({"env": [{"name": "DATABASE_URL", "value": "postgres://app:hunter2@db/app"}]})
	count(data.secrets.deny_command_line) == 0 with input as pod
	count(data.secrets.deny_literal_secret) == 1 with input as pod
}

test_secret_of_a_command_line_is_not_repeated if {
	results := data.secrets.deny_command_line with input as build.pod_with_container({"args": ["--password=hunter2"]})
	results == {{
		"msg": "container \"web\" has the secret password in args[0]: write $(NAME), with a variable from a Secret",
		"details": {"container": "web", "field": "spec.containers[0].args[0]", "value": "the secret password"},
	}}
}

test_words_may_be_names_only_after_secret if {
	results := data.secrets.deny_literal_secret with input as build.pod_with_container({"env": [{"name": "API_TOKEN", "value": "regcred"}]})
	{object.get(result, "severity", "as the rule's") | some result in results} == {"as the rule's"}
}

test_names_that_are_no_text if {
	variable := {"name": 1, "value": "redis://:hunter2@cache:6379"}
	count(data.secrets.deny_literal_secret) == 0 with input as build.pod_with_container({"env": [variable]})
}
