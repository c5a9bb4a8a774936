package armo_builtins

deny[result] {
	service := input[_]
	service.kind == "Service"
	service.spec.type == "LoadBalancer"
	workload := input[_]
	workload.kind == "Deployment"
	workload.metadata.namespace == service.metadata.namespace
	selects(service.spec.selector, workload.spec.template.metadata.labels)
	result := {
		"alertMessage": sprintf("%v is exposed by %v", [workload.metadata.name, service.metadata.name]),
		"alertObject": {"k8sApiObjects": [workload]},
		"relatedObjects": [{"object": service, "failedPaths": ["spec.type"]}],
	}
}

selects(selector, labels) {
	count({key | labels[key] == selector[key]}) == count(selector)
}
