# METADATA
# title: Secrets
# description: Passwords, tokens and keys belong in Secrets, not in ConfigMaps or in the objects that use them.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/configuration/secret/
package secrets

# METADATA
# title: Secret in an environment variable
# description: |
#   Everybody who can read the workload can read the value, and it ends up wherever manifests are stored. A variable counts if
#   its name is that of a secret, or if its value is a URL with a password, a private key or a token of a known form. Paths,
#   references, switches and numbers do not count, and what may be the name of a Secret has a low severity. The result does not
#   contain the value.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/inject-data-application/distribute-credentials-secure/
# custom:
#   id: SEC-01
#   severity: high
#   frameworks: {nsa-1.2: [secrets]}
deny_literal_secret contains result if {
	some container in data.lib.workload.containers
	variable := container.spec.env[i]
	is_string(variable.name)
	is_secret(variable)
	flaw := data.lib.workload.flaw(
		container, sprintf("env[%d].value", [i]), variable.name,
		sprintf("has the secret %s as plain text: use valueFrom.secretKeyRef", [variable.name]),
	)
	result := object.union(flaw, severity(variable))
}

# METADATA
# title: Secret in a ConfigMap
# description: |
#   More people and programs can read ConfigMaps than Secrets, and ConfigMaps are not encrypted at rest as Secrets can be. Keys
#   that are named like a secret count, settings in YAML, JSON and lines `name=value`, URLs with a password, private keys and
#   tokens of a known form. Paths, references, placeholders, switches and numbers do not count, nor do words that may be a name,
#   except as passwords. The result does not contain the value.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/configuration/configmap/
# - ref: https://kubernetes.io/docs/concepts/security/secrets-good-practices/
# custom:
#   id: SEC-02
#   severity: high
#   frameworks: {nsa-1.2: [secrets]}
deny_config_map contains result if {
	input.kind == "ConfigMap"
	input.apiVersion == "v1"
	some key, text in input.data
	some found in in_entry(key, text)
	result := {
		"msg": sprintf("key \"%s\" holds %s as plain text: move it to a Secret", [key, found]),
		"details": {"field": sprintf("data[\"%s\"]", [key]), "value": found},
	}
}

in_entry(key, text) := {"a secret"} if {
	data.lib.credentials.is_certain(key, trim_space(text))
} else := in_file(key, text)

in_file(key, text) := data.lib.credentials.forms(statements) | {sprintf("the secret %s", [name]) |
	# Code and documentation contain assignments that set no secret.
	regex.match(`^[^.]*$|\.(conf|config|cfg|cnf|env|ini|json|properties|sh|toml|ya?ml)$`, key)
	some name in data.lib.credentials.in_settings(statements)
} if {
	# Comments contain examples.
	statements := regex.replace(text, `(?m)^[ \t]*(#|//|;).*$`, "")
}

# METADATA
# title: Secret in a command line
# description: |
#   Everybody who can read the workload can read its command lines, and so can other processes, in /proc. Flags and variables
#   that are named like a secret count, URLs with a password, private keys and tokens of a known form, in commands, arguments,
#   probes and lifecycle hooks. What SEC-02 leaves out is left out here, too. The result does not contain the value.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/inject-data-application/define-command-argument-container/#use-environment-variables-to-define-arguments
# - ref: https://kubernetes.io/docs/tasks/inject-data-application/distribute-credentials-secure/
# custom:
#   id: SEC-03
#   severity: high
#   frameworks: {nsa-1.2: [secrets]}
deny_command_line contains result if {
	some command in commands
	words := command.words

	# mutants: equivalent, because it only saves time.
	data.lib.credentials.may_contain(concat(" ", [word | some word in words; is_string(word)]))
	some i, _ in words
	some found in in_word(words, i)
	field := sprintf("%s[%d]", [command.field, i])
	result := data.lib.workload.flaw(
		command.container, field, found,
		sprintf("has %s in %s: write $(NAME), with a variable from a Secret", [found, field]),
	)
}

commands contains {"container": container, "field": field, "words": words} if {
	some container in data.lib.workload.containers
	some field in ["command", "args"]
	words := container.spec[field]
}

commands contains {"container": container, "field": sprintf("%s.exec.command", [probe]), "words": words} if {
	some container in data.lib.workload.containers
	some probe in ["livenessProbe", "readinessProbe", "startupProbe"]
	words := container.spec[probe].exec.command
}

commands contains {"container": container, "field": sprintf("lifecycle.%s.exec.command", [hook]), "words": words} if {
	some container in data.lib.workload.containers
	some hook in ["postStart", "preStop"]
	words := container.spec.lifecycle[hook].exec.command
}

in_word(words, i) := data.lib.credentials.forms(words[i]) | {sprintf("the secret %s", [name]) |
	some name in data.lib.credentials.in_command(phrase(words, i))
}

# A flag that is named like a secret, with the word after it.
phrase(words, i) := sprintf("%s %s", [words[i], words[i + 1]]) if {
	data.lib.credentials.is_secret_name(words[i])
} else := words[i]

is_secret(variable) if {
	data.lib.credentials.is_secret_name(variable.name)
	data.lib.credentials.is_literal(variable.name, variable.value)
}

is_secret(variable) if count(data.lib.credentials.forms(variable.value)) > 0

# Words without digits may be the name of a Secret, as in IMAGE_PULL_SECRET=regcred.
severity(variable) := {"severity": "low"} if is_object_name(variable)

severity(variable) := {} if not is_object_name(variable)

is_object_name(variable) if {
	endswith(lower(variable.name), "_secret")
	regex.match(`^[a-z]+([.-][a-z]+)*$`, variable.value)
}
