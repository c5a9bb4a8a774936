# METADATA
# title: Secrets
# description: Passwords, tokens and keys belong in Secrets, not in the objects that use them.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/configuration/secret/
package secrets

# METADATA
# title: Secret in an environment variable
# description: |
#   Everybody who can read the workload can read the value, and it ends up wherever manifests are stored. The result does
#   not contain the value.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/inject-data-application/distribute-credentials-secure/
# custom:
#   id: SEC-01
#   severity: high
deny_literal_secret contains result if {
	some container in data.lib.workload.containers
	variable := container.spec.env[i]
	is_literal(variable.value)
	is_secret_name(variable.name)
	result := data.lib.workload.flaw(
		container, sprintf("env[%d].value", [i]), variable.name,
		sprintf("has the secret %s as plain text: use valueFrom.secretKeyRef", [variable.name]),
	)
}

is_secret_name(name) if {
	is_string(name)
	regex.match(`(password|passwd|passphrase|secret|token|credentials?|(api|access|private|secret|signing|encryption)[_.-]?key|secret_key_base|(^|[_.-])(pass|pwd))$`, lower(name))
}

# Not a switch, as in ALLOW_EMPTY_PASSWORD=yes, and not a reference to another variable.
is_literal(value) if {
	is_string(value)
	not lower(value) in {"", "false", "no", "off", "on", "true", "yes"}
	not regex.match(`^\$\([^()]+\)$`, value)
}
