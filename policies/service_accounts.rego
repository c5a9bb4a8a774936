# METADATA
# title: Service accounts
# description: The identity of a pod for the API server.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/
package service_accounts

# METADATA
# title: Token of the default ServiceAccount
# description: |
#   A permission granted to the default ServiceAccount is granted to every pod of the namespace that has its token. This
#   is only a warning, because the ServiceAccount can disable the token as well, which a policy for the pod does not see.
# custom:
#   id: SA-01
#   severity: low
warn_default_token contains result if {
	spec := data.lib.workload.spec
	account(spec) == "default"
	not spec.automountServiceAccountToken == false

	# Static pods of the kubelet have no ServiceAccount.
	not data.lib.workload.holder.metadata.annotations["kubernetes.io/config.mirror"]
	result := data.lib.workload.pod_flaw(
		"automountServiceAccountToken", mounted(spec),
		"pod holds a token of the default ServiceAccount: set automountServiceAccountToken: false, or serviceAccountName to an account of its own",
	)
}

# `serviceAccount` is the field's old name, still served beside the new one.
account(spec) := name if {
	name := spec.serviceAccountName
	not name in {null, ""}
} else := name if {
	name := spec.serviceAccount
	not name in {null, ""}
} else := "default"

mounted(spec) := object.get(spec, "automountServiceAccountToken", null)
