# METADATA
# title: Shared by both levels of the Pod Security Standards
package lib.pod_security

# METADATA
# description: Capabilities that the baseline level lets a container add.
added_capabilities := {
	"AUDIT_WRITE",
	"CHOWN",
	"DAC_OVERRIDE",
	"FOWNER",
	"FSETID",
	"KILL",
	"MKNOD",
	"NET_BIND_SERVICE",
	"SETFCAP",
	"SETGID",
	"SETPCAP",
	"SETUID",
	"SYS_CHROOT",
}

# METADATA
# description: The capabilities that a container adds.
added(container) := {capability |
	capability := container.securityContext.capabilities.add[_]
	is_string(capability)
}

# METADATA
# description: What a container adds besides these capabilities, in its order; null if that is nothing.
without(container, capabilities) := kept if {
	kept := [capability |
		capability := container.securityContext.capabilities.add[_]
		not capability in capabilities
	]
	count(kept) > 0
} else := null

# METADATA
# description: Values of `procMount` that keep the default masks; null means unset.
masked_proc_mounts := {null, "Default"}
