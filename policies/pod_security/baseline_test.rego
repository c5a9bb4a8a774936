package pod_security.baseline_test

import data.lib.build_test as build

# For the pages of the rules.
examples := {
	"deny_host_process": {
		"violating": build.small({}, build.context({"windowsOptions": {"hostProcess": true}})),
		"correct": build.small({}, {}),
	},
	"deny_host_namespaces": {
		"violating": build.small({"hostNetwork": true}, {}),
		"correct": build.small({}, {}),
	},
	"deny_privileged": {
		"violating": build.small({}, build.context({"privileged": true})),
		"correct": build.small({}, {}),
	},
	"deny_capabilities": {
		"violating": build.small({}, build.context({"capabilities": {"add": ["NET_BIND_SERVICE", "SYS_ADMIN"]}})),
		"correct": build.small({}, build.context({"capabilities": {"add": ["NET_BIND_SERVICE"]}})),
	},
	"deny_host_path": {
		"violating": build.small({"volumes": [{"name": "logs", "hostPath": {"path": "/var/log"}}]}, {}),
		"correct": build.small({"volumes": [{"name": "logs", "emptyDir": {}}]}, {}),
	},
	"deny_host_ports": {
		"violating": build.small({}, {"ports": [{"containerPort": 8080, "hostPort": 8080}]}),
		"correct": build.small({}, {"ports": [{"containerPort": 8080}]}),
	},
	"deny_apparmor": {
		"violating": build.small({}, build.context({"appArmorProfile": {"type": "Unconfined"}})),
		"correct": build.small({}, build.context({"appArmorProfile": {"type": "RuntimeDefault"}})),
	},
	"deny_selinux": {
		"violating": build.small({}, build.context({"seLinuxOptions": {"type": "spc_t"}})),
		"correct": build.small({}, {}),
	},
	"deny_proc_mount": {
		"violating": build.small({}, build.context({"procMount": "Unmasked"})),
		"correct": build.small({}, {}),
	},
	"deny_seccomp": {
		"violating": build.small({}, build.context({"seccompProfile": {"type": "Unconfined"}})),
		"correct": build.small({}, build.context({"seccompProfile": {"type": "RuntimeDefault"}})),
	},
	"deny_sysctls": {
		"violating": build.small(build.context({"sysctls": [{"name": "kernel.sem", "value": "1"}]}), {}),
		"correct": build.small(build.context({"sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]}), {}),
	},
	"deny_probe_hosts": {
		"violating": build.small({}, {"livenessProbe": {"httpGet": {"path": "/live", "port": 8080, "host": "169.254.1.1"}}}),
		"correct": build.small({}, {"livenessProbe": {"httpGet": {"path": "/live", "port": 8080}}}),
	},
}

test_host_process if {
	every workload in array.concat(
		build.with_pod(build.context({"windowsOptions": {"hostProcess": true}})),
		build.with_container(build.context({"windowsOptions": {"hostProcess": true}})),
	) {
		count(data.pod_security.baseline.deny_host_process) == 1 with input as workload
	}
	every options in [null, {}, {"hostProcess": null}, {"hostProcess": false}] {
		every workload in array.concat(
			build.with_pod(build.context({"windowsOptions": options})),
			build.with_container(build.context({"windowsOptions": options})),
		) {
			count(data.pod_security.baseline.deny_host_process) == 0 with input as workload
		}
	}
}

test_host_namespaces if {
	every field, namespace in {"hostNetwork": "network", "hostPID": "PID", "hostIPC": "IPC"} {
		every workload in build.with_pod({field: true}) {
			results := data.pod_security.baseline.deny_host_namespaces with input as workload
			build.messages(results) == {sprintf("pod uses the %s namespace of its node: remove %s", [namespace, field])}
		}
		every value in [false, null] {
			every workload in build.with_pod({field: value}) {
				count(data.pod_security.baseline.deny_host_namespaces) == 0 with input as workload
			}
		}
	}
	alone := data.pod_security.baseline.deny_host_namespaces with input as build.cron_job({"hostPID": true})
	alone == {{
		"msg": "pod uses the PID namespace of its node: remove hostPID",
		"details": {"field": "spec.jobTemplate.spec.template.spec.hostPID", "value": true, "fix": null},
	}}
	all_three := build.pod({"hostNetwork": true, "hostPID": true, "hostIPC": true})
	count(data.pod_security.baseline.deny_host_namespaces) == 3 with input as all_three
}

test_privileged if {
	every workload in build.with_container(build.context({"privileged": true})) {
		count(data.pod_security.baseline.deny_privileged) == 1 with input as workload
	}
	every value in [false, null] {
		every workload in build.with_container(build.context({"privileged": value})) {
			count(data.pod_security.baseline.deny_privileged) == 0 with input as workload
		}
	}
}

test_privileged_result if {
	results := data.pod_security.baseline.deny_privileged with input as build.deployment({"initContainers": [{
		"name": "tune",
		"securityContext": {"privileged": true},
	}]})
	results == {{
		"msg": "init container \"tune\" runs privileged: remove securityContext.privileged",
		"details": {
			"container": "tune",
			"field": "spec.template.spec.initContainers[0].securityContext.privileged",
			"value": true,
			"fix": null,
		},
	}}
}

test_capabilities if {
	every added in [["SYS_ADMIN"], ["NET_RAW"], ["ALL"], ["CAP_CHOWN"], ["chown"], ["CHOWN", "NET_ADMIN"], ["SYS_ADMIN", null]] {
		every workload in build.with_container(build.context({"capabilities": {"add": added}})) {
			count(data.pod_security.baseline.deny_capabilities) == 1 with input as workload
		}
	}
	every added in [null, [], ["NET_BIND_SERVICE"], ["AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"]] {
		every workload in build.with_container(build.context({"capabilities": {"add": added}})) {
			count(data.pod_security.baseline.deny_capabilities) == 0 with input as workload
		}
	}
}

test_capabilities_result if {
	pod := build.pod_with_container(build.context({"capabilities": {"add": ["SYS_TIME", "CHOWN", "NET_ADMIN"]}}))
	results := data.pod_security.baseline.deny_capabilities with input as pod
	build.messages(results) == {"container \"web\" adds capabilities beyond the default set: remove NET_ADMIN, SYS_TIME"}
	[["CHOWN"]] == [result.details.fix | some result in results]
	none := data.pod_security.baseline.deny_capabilities with input as build.pod_with_container(build.context({"capabilities": {"add": ["BPF"]}}))
	[null] == [result.details.fix | some result in none]
}

test_host_path if {
	every workload in build.with_pod({"volumes": [{"name": "a", "emptyDir": {}}, {"name": "logs", "hostPath": {"path": "/var/log"}}]}) {
		results := data.pod_security.baseline.deny_host_path with input as workload
		build.messages(results) == {"volume \"logs\" mounts /var/log of the node: use a persistentVolumeClaim or an emptyDir"}
		every field in build.fields(results) { endswith(field, "spec.volumes[1].hostPath") }
	}
	every volumes in [null, [], [{"name": "a"}], [{"name": "a", "hostPath": null}], [{"name": "a", "nfs": {}}]] {
		every workload in build.with_pod({"volumes": volumes}) {
			count(data.pod_security.baseline.deny_host_path) == 0 with input as workload
		}
	}
}

test_host_ports if {
	every workload in build.with_container({"ports": [{"containerPort": 1}, {"containerPort": 80, "hostPort": 8080}]}) {
		results := data.pod_security.baseline.deny_host_ports with input as workload
		count(results) == 1
		every field in build.fields(results) { endswith(field, ".ports[1].hostPort") }
	}
	every ports in [null, [], [{"containerPort": 80}], [{"containerPort": 80, "hostPort": 0}], [{"containerPort": 80, "hostPort": null}]] {
		every workload in build.with_container({"ports": ports}) {
			count(data.pod_security.baseline.deny_host_ports) == 0 with input as workload
		}
	}
}

test_apparmor_field if {
	every profile in [{}, {"type": null}, {"type": ""}, {"type": "Unconfined"}, {"type": "runtime/default"}] {
		every workload in array.concat(
			build.with_pod(build.context({"appArmorProfile": profile})),
			build.with_container(build.context({"appArmorProfile": profile})),
		) {
			count(data.pod_security.baseline.deny_apparmor) == 1 with input as workload
		}
	}
	every profile in [null, {"type": "RuntimeDefault"}, {"type": "Localhost", "localhostProfile": "web"}] {
		every workload in array.concat(
			build.with_pod(build.context({"appArmorProfile": profile})),
			build.with_container(build.context({"appArmorProfile": profile})),
		) {
			count(data.pod_security.baseline.deny_apparmor) == 0 with input as workload
		}
	}
}

test_apparmor_annotation if {
	every value in ["unconfined", "runtime", "Localhost/a"] {
		pod := object.union(build.pod(build.spec), {"metadata": {"annotations": {"container.apparmor.security.beta.kubernetes.io/web": value}}})
		results := data.pod_security.baseline.deny_apparmor with input as pod
		["runtime/default"] == [result.details.fix | some result in results]
		template := {"metadata": pod.metadata, "spec": pod.spec}
		count(data.pod_security.baseline.deny_apparmor) == 1 with input as object.union(build.deployment({}), {"spec": {"template": template}})
		count(data.pod_security.baseline.deny_apparmor) == 1 with input as object.union(
			build.cron_job({}),
			{"spec": {"jobTemplate": {"spec": {"template": template}}}},
		)

		# Annotations of the workload are not those of the pod.
		count(data.pod_security.baseline.deny_apparmor) == 0 with input as object.union(build.deployment(build.spec), {"metadata": pod.metadata})
	}
	every value in ["", "runtime/default", "localhost/", "localhost/web", null] {
		pod := object.union(build.pod(build.spec), {"metadata": {"annotations": {"container.apparmor.security.beta.kubernetes.io/web": value}}})
		count(data.pod_security.baseline.deny_apparmor) == 0 with input as pod
	}
	other := object.union(build.pod(build.spec), {"metadata": {"annotations": {"example.com/web": "unconfined"}}})
	count(data.pod_security.baseline.deny_apparmor) == 0 with input as other
}

test_selinux if {
	every options in [{"type": "spc_t"}, {"user": "system_u"}, {"role": "system_r"}, {"type": "container_t", "role": "system_r"}] {
		every workload in array.concat(
			build.with_pod(build.context({"seLinuxOptions": options})),
			build.with_container(build.context({"seLinuxOptions": options})),
		) {
			count(data.pod_security.baseline.deny_selinux) == 1 with input as workload
		}
	}
	every options in [
		null,
		{},
		{"type": ""},
		{"type": null, "user": null, "role": ""},
		{"type": "container_t"},
		{"type": "container_init_t"},
		{"type": "container_kvm_t"},
		{"type": "container_engine_t"},
		{"level": "s0:c123,c456"},
	] {
		every workload in array.concat(
			build.with_pod(build.context({"seLinuxOptions": options})),
			build.with_container(build.context({"seLinuxOptions": options})),
		) {
			count(data.pod_security.baseline.deny_selinux) == 0 with input as workload
		}
	}
}

test_proc_mount if {
	every value in ["Unmasked", "", "default"] {
		every workload in build.with_container(build.context({"procMount": value})) {
			count(data.pod_security.baseline.deny_proc_mount) == 1 with input as workload
		}
	}
	every value in [null, "Default"] {
		every workload in build.with_container(build.context({"procMount": value})) {
			count(data.pod_security.baseline.deny_proc_mount) == 0 with input as workload
		}
	}
	unmasked := {"hostUsers": false, "containers": [{"name": "web", "securityContext": {"procMount": "Unmasked"}}]}
	count(data.pod_security.baseline.deny_proc_mount) == 0 with input as build.pod(unmasked)
	count(data.pod_security.baseline.deny_proc_mount) == 0 with input as build.deployment(unmasked)
	count(data.pod_security.baseline.deny_proc_mount) == 1 with input as build.pod(object.union(unmasked, {"hostUsers": true}))
	count(data.pod_security.baseline.deny_proc_mount) == 1 with input as build.pod(object.union(unmasked, {"hostUsers": null}))
}

test_seccomp if {
	every profile in [{}, {"type": ""}, {"type": null}, {"type": "Unconfined"}] {
		every workload in array.concat(
			build.with_pod({"securityContext": {"seccompProfile": object.union({"type": ""}, profile)}}),
			build.with_container(build.context({"seccompProfile": profile})),
		) {
			count(data.pod_security.baseline.deny_seccomp) == 1 with input as workload
		}
	}
	every profile in [null, {"type": "RuntimeDefault"}, {"type": "Localhost", "localhostProfile": "web.json"}] {
		every workload in array.concat(
			build.with_pod(build.context({"seccompProfile": profile})),
			build.with_container(build.context({"seccompProfile": profile})),
		) {
			count(data.pod_security.baseline.deny_seccomp) == 0 with input as workload
		}
	}
}

test_sysctls if {
	every name in ["kernel.sem", "net.ipv4.ip_forward", "vm.swappiness", "net.core.somaxconn"] {
		every workload in build.with_pod(build.context({"sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}, {"name": name, "value": "1"}]})) {
			results := data.pod_security.baseline.deny_sysctls with input as workload
			build.messages(results) == {sprintf("pod sets the unsafe sysctl \"%s\": remove it from securityContext.sysctls", [name])}
		}
	}
	unsafe := build.context({"sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}, {"name": "kernel.sem", "value": "1"}]})
	every workload in build.with_pod(unsafe) {
		results := data.pod_security.baseline.deny_sysctls with input as workload
		[patch] := [result.details.patch | some result in results]
		fixed := json.patch(workload, patch)
		count(data.pod_security.baseline.deny_sysctls) == 0 with input as fixed
	}
	safe := [
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
	]
	every sysctls in [null, [], [{"name": name, "value": "1"} | some name in safe]] {
		every workload in build.with_pod(build.context({"sysctls": sysctls})) {
			count(data.pod_security.baseline.deny_sysctls) == 0 with input as workload
		}
	}
}

test_probe_hosts if {
	every probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
		every action in ["httpGet", "tcpSocket"] {
			every workload in build.with_container({probe: {action: {"port": 80, "host": "169.254.1.1"}}}) {
				results := data.pod_security.baseline.deny_probe_hosts with input as workload
				count(results) == 1
				every field in build.fields(results) { endswith(field, sprintf(".%s.%s.host", [probe, action])) }
			}
			every host in ["", null] {
				every workload in build.with_container({probe: {action: {"port": 80, "host": host}}}) {
					count(data.pod_security.baseline.deny_probe_hosts) == 0 with input as workload
				}
			}
		}
	}
}

test_hook_hosts if {
	every hook in ["postStart", "preStop"] {
		every action in ["httpGet", "tcpSocket"] {
			every workload in build.with_container({"lifecycle": {hook: {action: {"port": 80, "host": "169.254.1.1"}}}}) {
				count(data.pod_security.baseline.deny_probe_hosts) == 1 with input as workload
			}
			every handler in [{"port": 80}, {"port": 80, "host": ""}, {"port": 80, "host": null}] {
				every workload in build.with_container({"lifecycle": {hook: {action: handler}, "stopSignal": "SIGTERM"}}) {
					count(data.pod_security.baseline.deny_probe_hosts) == 0 with input as workload
				}
			}
		}
	}
}
