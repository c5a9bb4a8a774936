package armo_builtins

import rego.v1

import data.cautils

workloads contains workload if {
	workload := input[_]
	workload.kind == "Deployment"
	not cautils.list_contains(data.postureControlInputs.exemptNames, workload.metadata.name)
}

deny contains result if {
	workload := workloads[_]
	limit := to_number(data.postureControlInputs.maxReplicas[_])
	workload.spec.replicas > limit
	result := {
		"alertMessage": sprintf("%v has %v replicas, more than %v", [workload.metadata.name, workload.spec.replicas, limit]),
		"reviewPaths": ["spec.replicas"],
		"fixPaths": [{"path": "spec.replicas", "value": sprintf("%v", [limit])}],
		"alertObject": {"k8sApiObjects": [workload]},
	}
}
