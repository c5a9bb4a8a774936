package armo_builtins

import rego.v1

deny contains result if {
	pod := input[_]
	pod.kind == "Pod"
	pod.spec.hostNetwork
	result := described(pod, "spec.hostNetwork")
}

deny contains result if {
	some workload in input
	workload.kind == "Deployment"
	workload.spec.template.spec.hostNetwork
	result := described(workload, "spec.template.spec.hostNetwork")
}

described(object, path) := {
	"alertMessage": sprintf("%v %v is on the network of its node", [object.kind, object.metadata.name]),
	"deletePaths": [path],
	"failedPaths": [path],
	"fixPaths": [],
	"alertObject": {"k8sApiObjects": [object]},
}
