# METADATA
# title: Pod Security Standards, baseline
# description: |
#   The baseline level of version 1.36, one rule per control, for pods and for every built-in kind with a pod template.
#   The verdict equals that of the API server's PodSecurity admission for the same pod.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
package pod_security.baseline

# METADATA
# title: HostProcess containers
# description: A Windows HostProcess container has the permissions of the node.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/configure-pod-container/create-hostprocess-pod/
# custom:
#   id: KPS-B01
#   severity: critical
#   frameworks: {cis-1.12: ["5.2.11"], nsa-1.2: [privileged], pss: [baseline]}
deny_host_process contains result if {
	some owner in data.lib.workload.owners
	owner.spec.securityContext.windowsOptions.hostProcess == true
	flaw := data.lib.workload.flaw(
		owner, "securityContext.windowsOptions.hostProcess", true,
		"runs as a Windows HostProcess: remove securityContext.windowsOptions.hostProcess",
	)
	result := data.lib.workload.fixed(flaw, null)
}

# METADATA
# title: Host namespaces
# description: In the node's network, PID or IPC namespace, a pod can see and reach resources of others.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
# custom:
#   id: KPS-B02
#   severity: high
#   frameworks: {cis-1.12: ["5.2.3", "5.2.4", "5.2.5"], nsa-1.2: [host-namespaces], pss: [baseline]}
deny_host_namespaces contains result if {
	some field, namespace in {"hostNetwork": "network", "hostPID": "PID", "hostIPC": "IPC"}
	data.lib.workload.spec[field] == true
	flaw := data.lib.workload.pod_flaw(
		field, true,
		sprintf("pod uses the %s namespace of its node: remove %s", [namespace, field]),
	)
	result := data.lib.workload.fixed(flaw, null)
}

# METADATA
# title: Privileged containers
# description: A privileged container is root on the node in all but name.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/security/linux-kernel-security-constraints/#privileged-containers
# custom:
#   id: KPS-B03
#   severity: critical
#   frameworks: {cis-1.12: ["5.2.2"], nsa-1.2: [privileged], pss: [baseline]}
deny_privileged contains result if {
	some container in data.lib.workload.containers
	container.spec.securityContext.privileged == true
	flaw := data.lib.workload.flaw(
		container, "securityContext.privileged", true,
		"runs privileged: remove securityContext.privileged",
	)
	result := data.lib.workload.fixed(flaw, null)
}

# METADATA
# title: Capabilities
# description: Only capabilities of the container runtime's default set may be added.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/configure-pod-container/security-context/#set-capabilities-for-a-container
# custom:
#   id: KPS-B04
#   severity: high
#   frameworks: {cis-1.12: ["5.2.9"], nsa-1.2: [capabilities], pss: [baseline]}
deny_capabilities contains result if {
	some container in data.lib.workload.containers
	added := data.lib.pod_security.added(container.spec)
	extra := added - data.lib.pod_security.added_capabilities
	count(extra) > 0
	flaw := data.lib.workload.flaw(
		container, "securityContext.capabilities.add", sort(extra),
		sprintf("adds capabilities beyond the default set: remove %s", [concat(", ", sort(extra))]),
	)
	result := data.lib.workload.fixed(flaw, data.lib.pod_security.without(container.spec, extra))
}

# METADATA
# title: HostPath volumes
# description: A hostPath volume gives the pod access to the node's file system.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/storage/volumes/#hostpath
# custom:
#   id: KPS-B05
#   severity: high
#   frameworks: {cis-1.12: ["5.2.12"], nsa-1.2: [host-paths], pss: [baseline]}
deny_host_path contains result if {
	volume := data.lib.workload.spec.volumes[i]
	volume.hostPath != null
	result := data.lib.workload.pod_flaw(
		sprintf("volumes[%d].hostPath", [i]), volume.hostPath,
		sprintf("volume \"%v\" mounts %v of the node: use a persistentVolumeClaim or an emptyDir", [data.lib.workload.name(volume), path_of(volume)]),
	)
}

# An incomplete manifest may have no path.
path_of(volume) := object.get(volume, ["hostPath", "path"], "a path")

# METADATA
# title: Host ports
# description: A host port occupies a port of the node and bypasses network policies.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
# custom:
#   id: KPS-B06
#   severity: medium
#   frameworks: {cis-1.12: ["5.2.13"], nsa-1.2: [host-namespaces], pss: [baseline]}
deny_host_ports contains result if {
	some container in data.lib.workload.containers
	port := container.spec.ports[i].hostPort
	not port in {0, null}
	flaw := data.lib.workload.flaw(
		container, sprintf("ports[%d].hostPort", [i]), port,
		sprintf("takes port %v of the node: remove hostPort and use a Service", [port]),
	)
	result := data.lib.workload.fixed(flaw, null)
}

# METADATA
# title: AppArmor
# description: The runtime's AppArmor profile may be replaced by a local one, but not disabled.
# related_resources:
# - ref: https://kubernetes.io/docs/tutorials/security/apparmor/
# custom:
#   id: KPS-B07
#   severity: medium
#   frameworks: {cis-1.12: ["5.7.3"], nsa-1.2: [hardening], pss: [baseline]}
deny_apparmor contains result if {
	some result in apparmor_flaws
}

apparmor_flaws contains result if {
	some owner in data.lib.workload.owners
	profile := owner.spec.securityContext.appArmorProfile
	is_object(profile)
	type := object.get(profile, "type", "")
	not type in confining_profiles
	flaw := data.lib.workload.flaw(
		owner, "securityContext.appArmorProfile.type", type,
		sprintf("has the AppArmor profile \"%v\": use RuntimeDefault or Localhost", [type]),
	)
	result := data.lib.workload.fixed(flaw, "RuntimeDefault")
}

apparmor_flaws contains result if {
	value := data.lib.workload.holder.metadata.annotations[key]
	startswith(key, "container.apparmor.security.beta.kubernetes.io/")
	is_string(value)
	not confining_annotation(value)
	name := trim_prefix(key, "container.apparmor.security.beta.kubernetes.io/")
	flaw := {
		"msg": sprintf("container \"%s\" has the AppArmor profile \"%s\" by annotation: use runtime/default or localhost/…", [name, value]),
		"details": {"container": name, "field": sprintf("%s.annotations[\"%s\"]", [data.lib.workload.metadata_path, key]), "value": value},
	}
	result := data.lib.workload.fixed(flaw, "runtime/default")
}

confining_profiles := {"Localhost", "RuntimeDefault"}

confining_annotation(value) if value in {"", "runtime/default"}

confining_annotation(value) if startswith(value, "localhost/")

# METADATA
# title: SELinux
# description: A pod may use only the SELinux types for containers, and no SELinux user or role of its own.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/configure-pod-container/security-context/#assign-selinux-labels-to-a-container
# custom:
#   id: KPS-B08
#   severity: medium
#   frameworks: {cis-1.12: ["5.7.3"], nsa-1.2: [hardening], pss: [baseline]}
deny_selinux contains result if {
	some owner in data.lib.workload.owners
	value := owner.spec.securityContext.seLinuxOptions[option]
	allowed := selinux_options[option]
	not value in allowed
	flaw := data.lib.workload.flaw(
		owner, sprintf("securityContext.seLinuxOptions.%s", [option]), value,
		sprintf("sets the SELinux %s \"%v\": remove securityContext.seLinuxOptions.%s", [option, value, option]),
	)
	result := data.lib.workload.fixed(flaw, null)
}

selinux_options := {
	"type": {null, "", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"},
	"user": {null, ""},
	"role": {null, ""},
}

# METADATA
# title: /proc mount type
# description: /proc stays masked, unless the pod has its own user namespace.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
# custom:
#   id: KPS-B09
#   severity: medium
#   frameworks: {cis-1.12: ["5.7.3"], pss: [baseline]}
deny_proc_mount contains result if {
	some container in data.lib.workload.containers
	value := container.spec.securityContext.procMount
	not value in data.lib.pod_security.masked_proc_mounts
	not data.lib.workload.in_user_namespace
	flaw := data.lib.workload.flaw(
		container, "securityContext.procMount", value,
		sprintf("mounts /proc as \"%v\": remove securityContext.procMount, or set hostUsers: false", [value]),
	)
	result := data.lib.workload.fixed(flaw, null)
}

# METADATA
# title: Seccomp
# description: Seccomp must not be disabled.
# related_resources:
# - ref: https://kubernetes.io/docs/tutorials/security/seccomp/
# custom:
#   id: KPS-B10
#   severity: medium
#   frameworks: {cis-1.12: ["5.7.2"], nsa-1.2: [hardening], pss: [baseline]}
deny_seccomp contains result if {
	some owner in data.lib.workload.owners
	profile := owner.spec.securityContext.seccompProfile
	is_object(profile)
	type := object.get(profile, "type", "")
	not type in confining_profiles
	flaw := data.lib.workload.flaw(
		owner, "securityContext.seccompProfile.type", type,
		sprintf("has the seccomp profile \"%v\": use RuntimeDefault or Localhost", [type]),
	)
	result := data.lib.workload.fixed(flaw, "RuntimeDefault")
}

# METADATA
# title: Sysctls
# description: A pod may set only sysctls that are isolated per pod.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/administer-cluster/sysctl-cluster/#safe-and-unsafe-sysctls
# custom:
#   id: KPS-B11
#   severity: medium
#   frameworks: {cis-1.12: ["5.7.3"], pss: [baseline]}
deny_sysctls contains result if {
	name := data.lib.workload.spec.securityContext.sysctls[i].name
	not name in safe_sysctls
	flaw := data.lib.workload.pod_flaw(
		sprintf("securityContext.sysctls[%d].name", [i]), name,
		sprintf("pod sets the unsafe sysctl \"%v\": remove it from securityContext.sysctls", [name]),
	)
	path := data.lib.workload.pointer(sprintf("securityContext/sysctls/%d", [i]))
	result := data.lib.workload.patched(flaw, [{"op": "remove", "path": path}])
}

safe_sysctls := {
	"kernel.shm_rmid_forced",
	"net.ipv4.ip_local_port_range",
	"net.ipv4.ip_local_reserved_ports",
	"net.ipv4.ip_unprivileged_port_start",
	"net.ipv4.ping_group_range",
	"net.ipv4.tcp_fin_timeout",
	"net.ipv4.tcp_keepalive_intvl",
	"net.ipv4.tcp_keepalive_probes",
	"net.ipv4.tcp_keepalive_time",
	"net.ipv4.tcp_rmem",
	"net.ipv4.tcp_syncookies",
	"net.ipv4.tcp_wmem",
}

# METADATA
# title: Host of probes and lifecycle hooks
# description: A probe or hook with a host makes the kubelet connect to an arbitrary address from the node.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
# custom:
#   id: KPS-B12
#   severity: medium
#   frameworks: {pss: [baseline]}
deny_probe_hosts contains result if {
	some handler in addressed_handlers
	flaw := data.lib.workload.flaw(
		handler.container, handler.field, handler.host,
		sprintf("has the kubelet call \"%v\": remove %s", [handler.host, handler.field]),
	)
	result := data.lib.workload.fixed(flaw, null)
}

addressed_handlers contains {"container": container, "field": field, "host": host} if {
	some container in data.lib.workload.containers
	some probe in ["livenessProbe", "readinessProbe", "startupProbe"]
	some action in ["httpGet", "tcpSocket"]
	host := container.spec[probe][action].host
	not host in {"", null}
	field := sprintf("%s.%s.host", [probe, action])
}

addressed_handlers contains {"container": container, "field": field, "host": host} if {
	some container in data.lib.workload.containers
	some hook in ["postStart", "preStop"]
	some action in ["httpGet", "tcpSocket"]
	host := container.spec.lifecycle[hook][action].host
	not host in {"", null}
	field := sprintf("lifecycle.%s.%s.host", [hook, action])
}
