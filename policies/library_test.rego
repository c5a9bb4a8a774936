# The whole library against objects without violations.
package library_test

import data.lib.build_test as build

findings := union({
	data.deprecated_apis.deny_removed_version,
	data.deprecated_apis.warn_deprecated_version,
	data.deprecated_apis.warn_old_writer,
	data.images.deny_latest_tag,
	data.images.warn_missing_digest,
	data.ingress.deny_missing_tls,
	data.ingress.warn_uncovered_host,
	data.pod_security.baseline.deny_apparmor,
	data.pod_security.baseline.deny_capabilities,
	data.pod_security.baseline.deny_host_namespaces,
	data.pod_security.baseline.deny_host_path,
	data.pod_security.baseline.deny_host_ports,
	data.pod_security.baseline.deny_host_process,
	data.pod_security.baseline.deny_privileged,
	data.pod_security.baseline.deny_probe_hosts,
	data.pod_security.baseline.deny_proc_mount,
	data.pod_security.baseline.deny_seccomp,
	data.pod_security.baseline.deny_selinux,
	data.pod_security.baseline.deny_sysctls,
	data.pod_security.restricted.deny_capabilities,
	data.pod_security.restricted.deny_missing_seccomp,
	data.pod_security.restricted.deny_privilege_escalation,
	data.pod_security.restricted.deny_proc_mount,
	data.pod_security.restricted.deny_root_user,
	data.pod_security.restricted.deny_run_as_root,
	data.pod_security.restricted.deny_volume_types,
	data.probes.warn_missing_liveness,
	data.probes.warn_missing_readiness,
	data.rbac.deny_anonymous,
	data.rbac.deny_cluster_admin,
	data.rbac.deny_escalation,
	data.rbac.deny_everybody,
	data.rbac.deny_wildcard_resources,
	data.rbac.deny_wildcard_verbs,
	data.rbac.warn_wildcard_reads,
	data.resources.deny_missing_memory_limit,
	data.resources.warn_missing_requests,
	data.secrets.deny_literal_secret,
	data.service_accounts.warn_default_token,
	data.services.deny_external_ips,
	data.services.warn_node_port,
})

test_good_workloads_pass if {
	every workload in build.workloads(build.spec) {
		count(findings) == 0 with input as workload
	}
}

test_good_windows_pod_passes if {
	windows := object.union(build.container, {"securityContext": null})
	spec := {
		"os": {"name": "windows"},
		"automountServiceAccountToken": false,
		"securityContext": {"runAsNonRoot": true},
		"containers": [windows],
	}
	count(findings) == 0 with input as build.deployment(spec)
}

test_other_kinds_pass if {
	every workload in [
		{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"PASSWORD": "x"}},
		{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}},
		{"apiVersion": "example.com/v1", "kind": "Role", "rules": [{"verbs": ["*"]}]},
		{"apiVersion": "example.com/v1", "kind": "Ingress", "spec": {"tls": [{"hosts": ["a"]}], "rules": [{"host": "b"}]}},
		{"apiVersion": "example.com/v1", "kind": "Service", "spec": {"type": "NodePort", "externalIPs": ["192.0.2.1"]}},
		{
			"apiVersion": "example.com/v1",
			"kind": "ClusterRoleBinding",
			"roleRef": {"kind": "ClusterRole", "name": "cluster-admin"},
			"subjects": [{"kind": "User", "name": "system:anonymous"}],
		},
		{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "spec": {}},
		{"apiVersion": "v1", "kind": "Node", "spec": {"type": "NodePort", "externalIPs": ["192.0.2.1"]}},
		{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "rules": [{"verbs": ["*"]}]},
		{
			"apiVersion": "rbac.authorization.k8s.io/v1",
			"kind": "ClusterRole",
			"roleRef": {"kind": "ClusterRole", "name": "cluster-admin"},
			"subjects": [{"kind": "User", "name": "system:anonymous"}],
		},
		{"kind": "Pod"},
		{},
	] {
		count(findings) == 0 with input as workload
	}
}

# A minimal pod has many violations, which shows that the list above is used.
test_bare_pod_fails if {
	count(findings) > 8 with input as build.pod({"containers": [{"name": "web", "image": "web"}]})
}
