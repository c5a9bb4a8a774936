# METADATA
# title: Pod Security Standards, restricted
# description: |
#   What the restricted level of version 1.36 requires beyond baseline, one rule per control. A pod meets the restricted
#   level if neither this package nor pod_security.baseline has a violation.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
package pod_security.restricted

# METADATA
# title: Volume types
# description: A pod may use only volumes that Kubernetes manages, such as configMap and persistentVolumeClaim; baseline covers hostPath.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/storage/volumes/
# custom:
#   id: KPS-R01
#   severity: medium
#   frameworks: {pss: [restricted]}
deny_volume_types contains result if {
	volume := data.lib.workload.spec.volumes[i]
	source := volume[type]
	source != null
	not type in volume_fields
	result := data.lib.workload.pod_flaw(
		sprintf("volumes[%d].%s", [i, type]), source,
		sprintf("volume \"%v\" is of the type %s: use a persistentVolumeClaim or another API volume", [data.lib.workload.name(volume), type]),
	)
}

volume_fields := {
	"name",
	"configMap",
	"csi",
	"downwardAPI",
	"emptyDir",
	"ephemeral",
	"hostPath",
	"image",
	"persistentVolumeClaim",
	"projected",
	"secret",
}

# METADATA
# title: Privilege escalation
# description: No process may gain more privileges than its parent, for example through a setuid binary.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/configure-pod-container/security-context/
# custom:
#   id: KPS-R02
#   severity: medium
#   frameworks: {cis-1.12: ["5.2.6"], nsa-1.2: [privilege-escalation], pss: [restricted]}
deny_privilege_escalation contains result if {
	some container in data.lib.workload.containers
	not container.spec.securityContext.allowPrivilegeEscalation == false
	not data.lib.workload.is_windows
	flaw := data.lib.workload.flaw(
		container, "securityContext.allowPrivilegeEscalation", set_value(container, "allowPrivilegeEscalation"),
		"may gain privileges: set securityContext.allowPrivilegeEscalation: false",
	)
	result := data.lib.workload.fixed(flaw, false)
}

# METADATA
# title: Running as non-root
# description: The kubelet must refuse to start an image as root, unless the pod has its own user namespace.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/configure-pod-container/security-context/
# custom:
#   id: KPS-R03
#   severity: medium
#   frameworks: {cis-1.12: ["5.2.7"], nsa-1.2: [non-root], pss: [restricted]}
deny_run_as_root contains result if {
	some owner in possible_roots
	not data.lib.workload.in_user_namespace
	flaw := data.lib.workload.flaw(
		owner, "securityContext.runAsNonRoot", set_value(owner, "runAsNonRoot"),
		"may run as root: set securityContext.runAsNonRoot: true",
	)
	result := data.lib.workload.fixed(flaw, true)
}

possible_roots contains owner if {
	some owner in data.lib.workload.owners
	owner.spec.securityContext.runAsNonRoot == false
}

possible_roots contains container if {
	some container in data.lib.workload.containers
	not is_set(container.spec, "runAsNonRoot")
	not is_set(data.lib.workload.spec, "runAsNonRoot")
}

# METADATA
# title: Running as user 0
# description: User 0 is also root on the node, unless the pod has its own user namespace.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/configure-pod-container/security-context/
# custom:
#   id: KPS-R04
#   severity: medium
#   frameworks: {cis-1.12: ["5.2.7"], nsa-1.2: [non-root], pss: [restricted]}
deny_root_user contains result if {
	some owner in data.lib.workload.owners
	owner.spec.securityContext.runAsUser == 0
	not data.lib.workload.in_user_namespace
	result := data.lib.workload.flaw(
		owner, "securityContext.runAsUser", 0,
		"runs as user 0: set securityContext.runAsUser to another, or remove it",
	)
}

# METADATA
# title: Seccomp
# description: A seccomp profile must be set; baseline covers a disabled one.
# related_resources:
# - ref: https://kubernetes.io/docs/tutorials/security/seccomp/
# custom:
#   id: KPS-R05
#   severity: medium
#   frameworks: {cis-1.12: ["5.7.2"], nsa-1.2: [hardening], pss: [restricted]}
deny_missing_seccomp contains result if {
	some container in data.lib.workload.containers
	not is_set(container.spec, "seccompProfile")
	not is_set(data.lib.workload.spec, "seccompProfile")
	not data.lib.workload.is_windows
	flaw := data.lib.workload.flaw(
		container, "securityContext.seccompProfile", null,
		"has no seccomp profile: set securityContext.seccompProfile.type: RuntimeDefault",
	)
	result := data.lib.workload.fixed(flaw, {"type": "RuntimeDefault"})
}

# METADATA
# title: Capabilities
# description: All capabilities must be dropped, and only NET_BIND_SERVICE may be added.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/configure-pod-container/security-context/#set-capabilities-for-a-container
# custom:
#   id: KPS-R06
#   severity: medium
#   frameworks: {cis-1.12: ["5.2.8", "5.2.10"], nsa-1.2: [capabilities], pss: [restricted]}
deny_capabilities contains result if {
	some result in capability_flaws
	not data.lib.workload.is_windows
}

capability_flaws contains result if {
	some container in data.lib.workload.containers
	dropped := {capability | capability := container.spec.securityContext.capabilities.drop[_]}
	not "ALL" in dropped
	flaw := data.lib.workload.flaw(container, "securityContext.capabilities.drop", sort(dropped), missing_drop(dropped))
	result := data.lib.workload.fixed(flaw, ["ALL"])
}

missing_drop(dropped) := "keeps capabilities: set securityContext.capabilities.drop: [ALL]" if {
	count(misspelt(dropped)) == 0
}

# Container runtimes drop them all the same, but Pod Security admission refuses the pod.
missing_drop(dropped) := sprintf("drops capabilities as %s, which Pod Security admission does not accept: write ALL in capitals", [misspelt(dropped)[0]])

misspelt(dropped) := sort([capability | some capability in dropped; is_string(capability); upper(capability) == "ALL"])

capability_flaws contains result if {
	some container in data.lib.workload.containers
	added := data.lib.pod_security.added(container.spec)

	# Baseline covers capabilities outside the default set.
	extra := (added & data.lib.pod_security.added_capabilities) - {"NET_BIND_SERVICE"}
	count(extra) > 0
	flaw := data.lib.workload.flaw(
		container, "securityContext.capabilities.add", sort(extra),
		sprintf("adds capabilities: remove %s", [concat(", ", sort(extra))]),
	)
	result := data.lib.workload.fixed(flaw, data.lib.pod_security.without(container.spec, extra))
}

# METADATA
# title: /proc mount type
# description: /proc stays masked, even with a user namespace.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
# custom:
#   id: KPS-R07
#   severity: medium
#   frameworks: {cis-1.12: ["5.7.3"], pss: [restricted]}
deny_proc_mount contains result if {
	data.lib.workload.in_user_namespace
	some container in data.lib.workload.containers
	value := container.spec.securityContext.procMount
	not value in data.lib.pod_security.masked_proc_mounts
	flaw := data.lib.workload.flaw(
		container, "securityContext.procMount", value,
		sprintf("mounts /proc as \"%v\": remove securityContext.procMount", [value]),
	)
	result := data.lib.workload.fixed(flaw, null)
}

# Null is as good as unset.
is_set(spec, setting) if spec.securityContext[setting] != null

set_value(owner, setting) := owner.spec.securityContext[setting]

set_value(owner, setting) := null if not is_set(owner.spec, setting)
