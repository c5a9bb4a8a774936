package team.old

deny[msg] {
	container := input.spec.template.spec.containers[_]
	not container.resources.limits
	msg = sprintf("container %s without limits", [container.name])
}

warn_name[msg] {
	startswith(input.metadata.name, "tmp-")
	msg := "a temporary name"
}

violation[{"msg": msg, "details": {"kind": input.kind}}] {
	input.kind == data.limits.forbidden[_]
	msg := concat(" ", ["forbidden", input.kind])
}
