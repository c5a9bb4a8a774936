package containers

deny contains message if {
	some container in input.spec.containers
	not startswith(container.image, "registry.example.com/")
	message := sprintf("%s comes from another registry", [container.name])
}

deny contains message if {
	some container in input.spec.containers
	container.securityContext.privileged
	message := sprintf("%s is privileged", [container.name])
}

deny contains message if {
	some container in input.spec.containers
	not container.resources.limits.memory
	message := sprintf("%s has no memory limit", [container.name])
}
