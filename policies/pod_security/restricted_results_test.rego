# The whole result of each rule for its example.
package pod_security.restricted_results_test

import data.lib.build_test as build
import data.pod_security.restricted
import data.pod_security.restricted_test.examples

result(field, text, value) := {
	"msg": sprintf("container \"web\" %s", [text]),
	"details": {"container": "web", "field": sprintf("spec.containers[0].securityContext.%s", [field]), "value": value},
}

fixable(field, text, value, fix) := object.union(result(field, text, value), {"details": {"fix": fix}})

test_results_for_containers if {
	restricted.deny_privilege_escalation == {fixable(
		"allowPrivilegeEscalation",
		"may gain privileges: set securityContext.allowPrivilegeEscalation: false", null, false,
	)} with input as examples.deny_privilege_escalation.violating
	restricted.deny_run_as_root == {fixable(
		"runAsNonRoot",
		"may run as root: set securityContext.runAsNonRoot: true", null, true,
	)} with input as examples.deny_run_as_root.violating
	restricted.deny_root_user == {result(
		"runAsUser",
		"runs as user 0: set securityContext.runAsUser to another, or remove it", 0,
	)} with input as examples.deny_root_user.violating
	restricted.deny_missing_seccomp == {fixable(
		"seccompProfile",
		"has no seccomp profile: set securityContext.seccompProfile.type: RuntimeDefault", null, {"type": "RuntimeDefault"},
	)} with input as examples.deny_missing_seccomp.violating
	restricted.deny_proc_mount == {fixable(
		"procMount",
		"mounts /proc as \"Unmasked\": remove securityContext.procMount", "Unmasked", null,
	)} with input as examples.deny_proc_mount.violating
}

test_values_that_are_set if {
	escalating := build.small({}, build.context({"allowPrivilegeEscalation": true}))
	{found.details.value | some found in restricted.deny_privilege_escalation} == {true} with input as escalating
	root := build.small({}, build.context({"runAsNonRoot": false}))
	{found.details.value | some found in restricted.deny_run_as_root} == {false} with input as root
}

test_results_for_capabilities if {
	restricted.deny_capabilities == {fixable(
		"capabilities.drop",
		"keeps capabilities: set securityContext.capabilities.drop: [ALL]", [], ["ALL"],
	)} with input as examples.deny_capabilities.violating
	adding := build.small({}, build.context({"capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}}))
	restricted.deny_capabilities == {fixable(
		"capabilities.add",
		"adds capabilities: remove CHOWN", ["CHOWN"], null,
	)} with input as adding
	wrong := build.small({}, build.context({"capabilities": {"drop": [1]}}))
	count(restricted.deny_capabilities) == 1 with input as wrong
}

test_result_for_a_volume if {
	restricted.deny_volume_types == {{
		"msg": "volume \"data\" is of the type nfs: use a persistentVolumeClaim or another API volume",
		"details": {"field": "spec.volumes[0].nfs", "value": {"server": "nfs.example.com", "path": "/data"}},
	}} with input as examples.deny_volume_types.violating
}
