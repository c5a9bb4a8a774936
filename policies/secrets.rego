# METADATA
# title: Secrets
# description: Passwords, tokens and keys belong in Secrets, not in the objects that use them.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/configuration/secret/
package secrets

# METADATA
# title: Secret in an environment variable
# description: |
#   Everybody who can read the workload can read the value, and it ends up wherever manifests are stored. A variable counts if
#   its name is that of a secret, or if its value is a URL with a password or a private key. Paths, references, switches and
#   numbers do not count, and what looks like the name of a Secret has a low severity. The result does not contain the value.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/inject-data-application/distribute-credentials-secure/
# custom:
#   id: SEC-01
#   severity: high
deny_literal_secret contains result if {
	some container in data.lib.workload.containers
	variable := container.spec.env[i]
	is_string(variable.name)
	is_string(variable.value)
	is_secret(variable)
	flaw := data.lib.workload.flaw(
		container, sprintf("env[%d].value", [i]), variable.name,
		sprintf("has the secret %s as plain text: use valueFrom.secretKeyRef", [variable.name]),
	)
	result := object.union(flaw, severity(variable))
}

is_secret(variable) if {
	is_secret_name(variable.name)
	is_literal(variable)
}

# A password in a URL; a reference such as $(PASSWORD) is none.
is_secret(variable) if regex.match(`^[A-Za-z][A-Za-z0-9+.-]*://[^/?#@\s:]*:[^/?#@\s$][^/?#@\s]*@`, variable.value)

is_secret(variable) if regex.match(`-----BEGIN ([A-Z]+ )*PRIVATE KEY-----`, variable.value)

is_secret_name(name) if {
	regex.match(`(password|passwd|passphrase|secret|token|credentials?|(api|access|private|secret|signing|encryption)[_.-]?key|secret_key_base|(^|[_.-])(pass|pwd))([_.-]value)?$`, lower(name))

	# The name of an etcd cluster.
	not endswith(lower(name), "initial_cluster_token")
}

is_literal(variable) if {
	value := variable.value

	# A switch, as in ALLOW_EMPTY_PASSWORD=yes.
	not lower(value) in {"", "false", "no", "off", "on", "true", "yes"}

	# References to other variables, or to a store that a webhook or a controller reads.
	not regex.match(`^(\$\([^()]+\))+$`, value)
	not regex.match(`^(vault:|ref\+|awssm:|>>vault:)`, value)

	# A file that holds the secret.
	not regex.match(`^(/[A-Za-z0-9_.@-]+)+/?$`, value)
	not is_count(variable)
}

# A limit or a switch, as in MAX_TOKEN=4096. Passwords may consist of digits.
is_count(variable) if {
	regex.match(`^[0-9]+([.][0-9]+)?$`, variable.value)
	not regex.match(`(password|passwd|passphrase|pass|pwd)([_.-]value)?$`, lower(variable.name))
}

# Words without digits may be the name of a Secret, as in IMAGE_PULL_SECRET=regcred.
severity(variable) := {"severity": "low"} if is_object_name(variable)

severity(variable) := {} if not is_object_name(variable)

is_object_name(variable) if {
	endswith(lower(variable.name), "_secret")
	regex.match(`^[a-z]+([.-][a-z]+)*$`, variable.value)
}
