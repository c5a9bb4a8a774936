# METADATA
# title: "Practices: secrets"
# description: How containers read Secrets. Off by default, because many applications read variables only.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/security/secrets-good-practices/
package practices.secrets

# METADATA
# title: Secrets in environment variables
# description: |
#   Variables are inherited by child processes and end up in crash reports and logs; a file of a volume does not, and it is updated with
#   its Secret. One result for each container.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/inject-data-application/distribute-credentials-secure/
# custom:
#   id: SEC-04
#   severity: info
#   frameworks: {cis-1.12: ["5.4.1"], nsa-1.2: [secrets]}
warn_secret_variables contains result if {
	some container in data.lib.workload.containers
	fields := [field | some field, _ in sources(container.spec)]
	result := data.lib.workload.flaw(
		container, min(fields), sort({name | some name in sources(container.spec)}),
		"has Secrets in environment variables: mount them as volumes",
	)
}

# The names of Secrets, by the field that refers to them.
sources(container) := object.union(
	{sprintf("env[%d].valueFrom.secretKeyRef", [i]): name | name := container.env[i].valueFrom.secretKeyRef.name},
	{sprintf("envFrom[%d].secretRef", [i]): name | name := container.envFrom[i].secretRef.name},
)
