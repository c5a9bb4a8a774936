# METADATA
# title: ServiceAccounts of pods
# description: Finds the ServiceAccount of a pod, and whether the pod holds its token.
package lib.accounts

# METADATA
# description: |
#   The ServiceAccount of a pod, and the field that names it. `serviceAccount` is the field's old name, still served beside the
#   new one.
named(spec) := {"field": "serviceAccountName", "name": name} if {
	name := spec.serviceAccountName
	not name in {null, ""}
} else := {"field": "serviceAccount", "name": name} if {
	name := spec.serviceAccount
	not name in {null, ""}
} else := {"field": "serviceAccountName", "name": "default"}

# METADATA
# description: The name of a pod's ServiceAccount.
name(spec) := named(spec).name

# METADATA
# description: The pod's setting about its token; null leaves the decision to the ServiceAccount.
automount(spec) := object.get(spec, "automountServiceAccountToken", null)

# METADATA
# description: |
#   Whether the pod of the input mounts no token because its ServiceAccount disables that. The account's setting applies to new
#   pods that have none of their own. A Pod keeps the token that it was created with.
is_disabled_by_account(spec) if {
	automount(spec) == null
	data.lib.neighbours.in_namespace("v1", "ServiceAccount")[name(spec)].automountServiceAccountToken == false
	not mounts_token
}

# METADATA
# description: Whether a container of the input mounts a token where clients of the API server expect it.
mounts_token if {
	some container in data.lib.workload.containers
	some mount in container.spec.volumeMounts
	mount.mountPath == "/var/run/secrets/kubernetes.io/serviceaccount"
}
