package armo_builtins

import rego.v1

# The input has a Service and all workloads of its namespace.
deny contains result if {
	service := input[_]
	service.kind == "Service"
	selector := service.spec.selector
	count([workload | workload := input[_]; selects(selector, labels(workload))]) == 0
	result := {
		"alertMessage": sprintf("no workload has the labels that Service %v selects", [service.metadata.name]),
		"reviewPaths": ["spec.selector"],
		"failedPaths": ["spec.selector"],
		"fixPaths": [],
		"alertObject": {"k8sApiObjects": [service]},
	}
}

labels(workload) := workload.metadata.labels if workload.kind == "Pod"

labels(workload) := workload.spec.template.metadata.labels

selects(selector, labels) if {
	every key, value in selector {
		labels[key] == value
	}
}
