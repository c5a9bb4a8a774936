package lib.credentials_test

import data.lib.credentials

# Built here, so that no scanner of source code takes one for a token.
tokens := [sprintf("%s%s", [prefix, filled(parts)]) |
	some prefix, parts in {"ghp_": 9, "github_pat_": 6, "glpat-": 5, "xoxb-": 3, "sk_live_": 4, "rk_live_": 4, "npm_": 9, "hvs.": 6}
]

filled(parts) := concat("", [part | some _ in numbers.range(1, parts); part := "a1B2"])

test_names if {
	every name in ["password", "DB_PASSWORD", "spring.datasource.password", "github-token", "clientSecret", "aws_secret_access_key", "db-pwd", "token.value"] {
		credentials.is_secret_name(name)
	}
	every name in ["passwordFile", "secretName", "token_ttl", "bypass", "public_key", "NEXT_PUBLIC_API_KEY", "publishable_api_key", "initial-cluster-token", "initial_cluster_token"] {
		not credentials.is_secret_name(name)
	}
}

test_literals if {
	every value in ["hunter2", "s3cr3t", "p@ss", "a/b+c=", "123456", "pa$$word", "/hunter 2"] {
		credentials.is_literal("password", value)
	}
	every value in [
		"$(PASSWORD)",
		"${PASSWORD}",
		"prefix-${PASSWORD}",
		"$PASSWORD",
		"$1",
		"{{ .Values.password }}",
		"<password>",
		"%PASSWORD%",
		"@password@",
		"__PASSWORD__",
		"********",
		"xxxx",
		"vault:secret/data/db#password",
		"ref+awsssm://db/password",
		"awssm:db",
		"arn:aws:secretsmanager:eu-west-1:1:secret:db",
		"ENC[AES256_GCM,data:x]",
		"ENC(x)",
		"https://vault.example.com/db",
		"/run/secrets/db",
		"./db.txt",
		"secrets/db.json",
		"tls.key",
	] {
		not credentials.is_literal("password", value)
	}
}

test_switches if {
	every value in [
		"", "disabled", "enabled", "false", "nil", "no", "none", "null", "off", "on", "optional", "required", "true", "yes",
	] {
		not credentials.is_literal("password", value)
		not credentials.is_literal("password", upper(value))
	}
}

test_numbers if {
	credentials.is_literal("password", "4096")
	credentials.is_literal("DB_PASS", "4096")
	not credentials.is_literal("token", "4096")
	not credentials.is_literal("token", "1.5")
	credentials.is_literal("token", "4096a")
}

test_forms if {
	every text in tokens {
		credentials.forms(text) == {"a token"}
		credentials.forms(sprintf("curl -H 'X: %s'", [text])) == {"a token"}
	}
	credentials.forms(sprintf("%s:%s", [concat("", ["AKIA", "ABCDEFGHIJKLMNOP"]), filled(10)])) == {"a token"}
	credentials.forms("-----BEGIN PRIVATE KEY-----") == {"a private key"}
	credentials.forms("-----BEGIN OPENSSH PRIVATE KEY-----") == {"a private key"}
	every text in [
		"postgres://app:hunter2@db/app",
		"redis://:hunter2@cache:6379",
		"url: jdbc:postgresql://app:hunter2@db/app",
		"a=amqp://a:hunter2@b,amqp://c:hunter2@d",
	] {
		credentials.forms(text) == {"a URL with a password"}
	}
	credentials.forms("postgres://app:hunter2@db -----BEGIN RSA PRIVATE KEY-----") == {"a URL with a password", "a private key"}
}

test_other_forms if {
	every text in [
		"",
		"postgres://app@db/app",
		"postgres://app:$(PASSWORD)@db/app",
		"postgres://app:%s@db/app",
		"postgres://app:{password}@db/app",
		"postgres://app:<password>@db/app",
		"postgres://app:***@db/app",
		"http://proxy:8080/a@b",
		"http://a:80 b@c",
		"ssh://git@example.com:22/web",
		"-----BEGIN CERTIFICATE-----",
		"-----BEGIN PUBLIC KEY-----",
		"ghp_short",
		"glpat-short",
		concat("", ["AKIA", "ABCDEFGHIJKLMNOP"]),
	] {
		credentials.forms(text) == set()
	}
}

test_texts_without_credentials if {
	credentials.may_contain("--password=hunter2")
	not credentials.may_contain("run --log=info")
}

test_commands if {
	every text, names in {
		"--password=hunter2": {"password"},
		"--db-password=hunter2 --log=info": {"db-password"},
		"-Dspring.datasource.password=hunter2": {"Dspring.datasource.password"},
		"PASSWORD=hunter2 run": {"PASSWORD"},
		"export A=1;PASSWORD='hunter2' run": {"PASSWORD"},
		"--password=\"hunter2\"": {"password"},
		"--password hunter2": {"password"},
		"mysql --password 'hunter2' -u app": {"password"},
		"login --token a1b2c3d4": {"token"},
		"(TOKEN=a1b2c3d4 run)": {"TOKEN"},
	} {
		credentials.in_command(text) == names
	}
}

test_commands_without_secrets if {
	every text in [
		"--password",
		"--password=$(PASSWORD)",
		"--password=$PASSWORD",
		"--password=\"$PASSWORD\"",
		"password=$(cat /run/secrets/db)",
		"--password $(PASSWORD)",
		"--password --user app",
		"--password-file=/run/secrets/db",
		"--password-min-length=12",
		"--no-password shop",
		"--generate-password 12",
		"--webhook-secret=web-tls",
		"--tls-secret=shop/web-tls-1",
		"--token=true",
		"--initial-cluster-token=etcd-cluster-1",
		"[ \"$TOKEN\" = a1b2c3d4 ]",
	] {
		credentials.in_command(text) == set()
	}
}

test_settings if {
	every text, names in {
		"password: hunter2": {"password"},
		"db:\n  password: \"hunter2\" # for tests\n  user: app": {"password"},
		"- token: 'a1b2c3d4'\r\n": {"token"},
		"spring.datasource.password=hunter2\nlog=info": {"spring.datasource.password"},
		"export DB_PASSWORD = hunter2": {"DB_PASSWORD"},
		"{\n  \"password\": \"hunter2\",\n  \"user\": \"app\"\n}": {"password"},
		"{\"db\":{\"user\":\"app\",\"password\":\"hunter2\"}}": {"password"},
		"a_token=a1b2c3d4\nb_token=a1b2c3d4": {"a_token", "b_token"},
	} {
		credentials.in_settings(text) == names
	}
}

test_settings_without_secrets if {
	every text in [
		"password:",
		"password:\n  type: string",
		"password: {type: string}",
		"password: &shared x1",
		"password: *shared",
		"password: !vault x1",
		"password: |\n  hunter2",
		"password: Enter your password",
		"login.password=Password",
		"password = get_password()",
		"password = ${PASSWORD}",
		"password_file: /run/secrets/db",
		"token: access_token",
		"secret: web-tls",
		"secretName: web-tls-1",
		"# password: hunter2",
		"if token == a1b2c3d4 then",
	] {
		credentials.in_settings(text) == set()
	}
}

test_words_are_names_except_as_passwords if {
	credentials.is_certain("password", "hunter")
	credentials.is_certain("token", "a1b2c3d4")
	every value in ["regcred", "web-tls", "shop/web-tls", "web-tls-1", "token.v2"] {
		not credentials.is_certain("secret", value)
	}
	not credentials.is_certain("password", "hunter two")
	not credentials.is_certain("password", "$(PASSWORD)")
	not credentials.is_certain("user", "hunter2")
}
