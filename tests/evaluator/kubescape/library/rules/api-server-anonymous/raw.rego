package armo_builtins

import rego.v1

deny contains result if {
	pod := input[_]
	"--anonymous-auth=true" in pod.spec.containers[0].command
	result := {
		"alertMessage": "the API server answers anybody",
		"ruleStatus": "warning",
		"alertObject": {"k8sApiObjects": [pod]},
	}
}
