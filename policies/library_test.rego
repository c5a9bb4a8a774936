# The whole library against objects without violations.
package library_test

import data.lib.build_test as build

findings := union({
	data.availability.deny_blocking_budget,
	data.deprecated_apis.deny_removed_version,
	data.deprecated_apis.warn_deprecated_version,
	data.deprecated_apis.warn_old_writer,
	data.gateways.deny_plain_listener,
	data.hardening.deny_runtime_socket,
	data.hardening.warn_writable_root,
	data.images.deny_latest_tag,
	data.ingress.deny_missing_tls,
	data.ingress.deny_snippet,
	data.ingress.warn_uncovered_host,
	data.namespaces.deny_missing_level,
	data.network_policies.deny_unmatched_pods,
	data.network_policies.deny_unselected_pods,
	data.network_policies.warn_unmatched_namespaces,
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
	data.probes.warn_missing_readiness,
	data.rbac.deny_anonymous,
	data.rbac.deny_cluster_admin,
	data.rbac.deny_default_account,
	data.rbac.deny_escalation,
	data.rbac.deny_everybody,
	data.rbac.deny_masters_group,
	data.rbac.deny_missing_reference,
	data.rbac.deny_wildcard_resources,
	data.rbac.deny_wildcard_verbs,
	data.rbac.warn_wildcard_reads,
	data.rbac_access.deny_account_tokens,
	data.rbac_access.deny_admission_changes,
	data.rbac_access.deny_certificate_approval,
	data.rbac_access.deny_node_proxy,
	data.rbac_access.deny_pod_connections,
	data.rbac_access.deny_secrets,
	data.references.pods.deny_missing_claim,
	data.references.pods.deny_missing_config_map,
	data.references.pods.deny_missing_pod_class,
	data.references.pods.deny_missing_probe_port,
	data.references.pods.deny_missing_secret,
	data.references.pods.deny_missing_service_account,
	data.references.pods.deny_missing_storage_class,
	data.references.routes.deny_missing_backend,
	data.references.routes.deny_missing_certificate,
	data.references.routes.deny_missing_class,
	data.references.routes.deny_missing_grant,
	data.references.scaling.deny_missing_request,
	data.references.scaling.deny_missing_target,
	data.references.selectors.deny_overlapping_budgets,
	data.references.selectors.deny_overlapping_workloads,
	data.references.services.deny_missing_pods,
	data.references.services.deny_missing_port,
	data.references.webhooks.deny_own_pods,
	data.references.webhooks.deny_unreachable_service,
	data.resources.deny_missing_memory_limit,
	data.resources.warn_missing_requests,
	data.secrets.deny_command_line,
	data.secrets.deny_config_map,
	data.secrets.deny_literal_secret,
	data.service_accounts.deny_powerful_pod,
	data.service_accounts.warn_default_token,
	data.service_accounts.warn_unused_token,
	data.services.deny_external_ips,
	data.services.warn_node_port,
})

practices := union({
	data.practices.availability.warn_fixed_autoscaler,
	data.practices.availability.warn_missing_budget,
	data.practices.availability.warn_protected_broken_pods,
	data.practices.availability.warn_recreate,
	data.practices.availability.warn_single_replica,
	data.practices.availability.warn_unspread_replicas,
	data.practices.hardening.deny_writable_system_directory,
	data.practices.hardening.warn_bare_pod,
	data.practices.hardening.warn_duplicate_variable,
	data.practices.hardening.warn_root_group,
	data.practices.hardening.warn_ssh_port,
	data.practices.images.deny_frozen_registry,
	data.practices.images.deny_other_registry,
	data.practices.images.warn_missing_digest,
	data.practices.jobs.warn_accumulation,
	data.practices.namespaces.warn_default_namespace,
	data.practices.namespaces.warn_missing_quota,
	data.practices.network_policies.warn_open_ingress,
	data.practices.probes.warn_identical_probes,
	data.practices.probes.warn_missing_liveness,
	data.practices.rbac_access.deny_role_changes,
	data.practices.rbac_access.deny_volume_creation,
	data.practices.rbac_access.warn_workload_creation,
	data.practices.references.warn_conflicting_rule,
	data.practices.references.warn_missing_headless_service,
	data.practices.references.warn_missing_monitored,
	data.practices.resources.warn_missing_cpu_limit,
	data.practices.secrets.warn_secret_variables,
	data.practices.services.warn_open_load_balancer,
})

# What a good workload refers to.
inventory := build.inventory([{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "web"}}])

test_good_workloads_pass if {
	every workload in build.workloads(build.spec) {
		count(findings) == 0 with input as workload with data.inventory as inventory
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
		count(findings | practices) == 0 with input as workload
	}
}

# A minimal pod has many violations, which shows that the list above is used.
test_bare_pod_fails if {
	count(findings) > 8 with input as build.pod({"containers": [{"name": "web", "image": "web"}]})
}
