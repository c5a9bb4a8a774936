# The whole result of each rule for its example, and fields that are similar to those of the rules.
package pod_security.baseline_results_test

import data.lib.build_test as build
import data.pod_security.baseline
import data.pod_security.baseline_test.examples

result(field, text, value) := {
	"msg": sprintf("container \"web\" %s", [text]),
	"details": {"container": "web", "field": sprintf("spec.containers[0].%s", [field]), "value": value},
}

fixable(field, text, value, fix) := object.union(result(field, text, value), {"details": {"fix": fix}})

test_results_for_containers if {
	baseline.deny_host_process == {fixable(
		"securityContext.windowsOptions.hostProcess",
		"runs as a Windows HostProcess: remove securityContext.windowsOptions.hostProcess", true, null,
	)} with input as examples.deny_host_process.violating
	baseline.deny_capabilities == {fixable(
		"securityContext.capabilities.add",
		"adds capabilities beyond the default set: remove SYS_ADMIN", ["SYS_ADMIN"], ["NET_BIND_SERVICE"],
	)} with input as examples.deny_capabilities.violating
	baseline.deny_host_ports == {fixable(
		"ports[0].hostPort",
		"takes port 8080 of the node: remove hostPort and use a Service", 8080, null,
	)} with input as examples.deny_host_ports.violating
	baseline.deny_selinux == {fixable(
		"securityContext.seLinuxOptions.type",
		"sets the SELinux type \"spc_t\": remove securityContext.seLinuxOptions.type", "spc_t", null,
	)} with input as examples.deny_selinux.violating
	baseline.deny_proc_mount == {fixable(
		"securityContext.procMount",
		"mounts /proc as \"Unmasked\": remove securityContext.procMount, or set hostUsers: false", "Unmasked", null,
	)} with input as examples.deny_proc_mount.violating
	baseline.deny_probe_hosts == {fixable(
		"livenessProbe.httpGet.host",
		"has the kubelet call \"169.254.1.1\": remove livenessProbe.httpGet.host", "169.254.1.1", null,
	)} with input as examples.deny_probe_hosts.violating
	baseline.deny_probe_hosts == {fixable(
		"lifecycle.preStop.tcpSocket.host",
		"has the kubelet call \"169.254.1.1\": remove lifecycle.preStop.tcpSocket.host", "169.254.1.1", null,
	)} with input as build.small({}, {"lifecycle": {"preStop": {"tcpSocket": {"port": 80, "host": "169.254.1.1"}}}})
}

test_results_for_profiles if {
	every type in ["Unconfined", ""] {
		baseline.deny_apparmor == {fixable(
			"securityContext.appArmorProfile.type",
			sprintf("has the AppArmor profile \"%s\": use RuntimeDefault or Localhost", [type]), type, "RuntimeDefault",
		)} with input as build.small({}, build.context({"appArmorProfile": {"type": type}}))
		baseline.deny_seccomp == {fixable(
			"securityContext.seccompProfile.type",
			sprintf("has the seccomp profile \"%s\": use RuntimeDefault or Localhost", [type]), type, "RuntimeDefault",
		)} with input as build.small({}, build.context({"seccompProfile": {"type": type}}))
	}
	untyped := build.small({}, build.context({"appArmorProfile": {}, "seccompProfile": {}}))
	{found.details.value | some found in (baseline.deny_apparmor | baseline.deny_seccomp)} == {""} with input as untyped
	wrong := build.small({}, build.context({"appArmorProfile": "Unconfined", "seccompProfile": "Unconfined"}))
	count(baseline.deny_apparmor | baseline.deny_seccomp) == 0 with input as wrong
}

test_result_for_an_annotation if {
	key := "container.apparmor.security.beta.kubernetes.io/web"
	pod := object.union(build.small({}, {}), {"metadata": {"annotations": {key: "unconfined"}}})
	baseline.deny_apparmor == {{
		"msg": "container \"web\" has the AppArmor profile \"unconfined\" by annotation: use runtime/default or localhost/…",
		"details": {"container": "web", "field": sprintf("metadata.annotations[\"%s\"]", [key]), "value": "unconfined", "fix": "runtime/default"},
	}} with input as pod
}

test_result_for_the_pod if {
	baseline.deny_sysctls == {{
		"msg": "pod sets the unsafe sysctl \"kernel.sem\": remove it from securityContext.sysctls",
		"details": {
			"field": "spec.securityContext.sysctls[0].name",
			"value": "kernel.sem",
			"patch": [{"op": "remove", "path": "/spec/securityContext/sysctls/0"}],
		},
	}} with input as examples.deny_sysctls.violating
}

test_volume_without_a_path if {
	baseline.deny_host_path == {{
		"msg": "volume \"node\" mounts a path of the node: use a persistentVolumeClaim or an emptyDir",
		"details": {"field": "spec.volumes[0].hostPath", "value": {}},
	}} with input as build.small({"volumes": [{"name": "node", "hostPath": {}}]}, {})
}

# Fields that are similar to those of the rules.
test_other_fields if {
	count(baseline.deny_host_namespaces) == 0 with input as build.small({"shareProcessNamespace": true}, {})
	count(baseline.deny_selinux) == 0 with input as build.small({}, build.context({"seLinuxOptions": {"user": "", "role": null}}))
	handler := {"httpGet": {"port": 80, "host": "169.254.1.1"}}
	every container in [
		{"livenessProbe": {"grpc": {"port": 80, "host": "169.254.1.1"}}},
		{"otherProbe": handler},
		{"lifecycle": {"preStop": {"grpc": {"port": 80, "host": "169.254.1.1"}}}},
		{"lifecycle": {"preStart": handler}},
	] {
		count(baseline.deny_probe_hosts) == 0 with input as build.small({}, container)
	}
}
