package armo_builtins

import rego.v1

deny contains result if {
	pod := input[_]
	pod.kind == "Pod"
	pod.spec.hostNetwork
	result := said(pod, "spec.hostNetwork")
}

deny contains result if {
	some workload in input
	workload.kind == "Deployment"
	workload.spec.template.spec.hostNetwork
	result := said(workload, "spec.template.spec.hostNetwork")
}

said(object, path) := {
	"alertMessage": sprintf("%v %v is on the network of its node", [object.kind, object.metadata.name]),
	"deletePaths": [path],
	"failedPaths": [path],
	"fixPaths": [],
	"alertObject": {"k8sApiObjects": [object]},
}
