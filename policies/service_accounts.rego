# METADATA
# title: Service accounts
# description: The identity of a pod for the API server.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/
package service_accounts

# METADATA
# title: Token of the default ServiceAccount
# description: |
#   A permission granted to the default ServiceAccount is granted to every pod of the namespace that has its token. Not
#   reported if that ServiceAccount disables the token; where ServiceAccounts cannot be read, it counts as if it did not.
# custom:
#   id: SA-01
#   severity: low
#   lookups: optional
warn_default_token contains result if {
	spec := data.lib.workload.spec
	data.lib.workload.service_account.name == "default"
	not spec.automountServiceAccountToken == false
	not is_disabled_by_account(spec)

	# Static pods of the kubelet have no ServiceAccount.
	not data.lib.workload.holder.metadata.annotations["kubernetes.io/config.mirror"]
	result := data.lib.workload.pod_flaw(
		"automountServiceAccountToken", mounted(spec),
		"pod holds a token of the default ServiceAccount: set automountServiceAccountToken: false, or serviceAccountName to an account of its own",
	)
}

# The account's setting applies to new pods that have none of their own. A Pod keeps the token it was created with.
is_disabled_by_account(spec) if {
	mounted(spec) == null
	data.lib.neighbours.in_namespace("v1", "ServiceAccount")["default"].automountServiceAccountToken == false
	not mounts_token
}

mounts_token if {
	some container in data.lib.workload.containers
	some mount in container.spec.volumeMounts
	mount.mountPath == "/var/run/secrets/kubernetes.io/serviceaccount"
}

mounted(spec) := object.get(spec, "automountServiceAccountToken", null)
