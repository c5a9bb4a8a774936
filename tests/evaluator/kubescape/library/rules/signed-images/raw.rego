package armo_builtins

import rego.v1

deny contains result if {
	pod := input[_]
	not cosign.verify(pod.spec.containers[_].image, "key")
	result := {"alertMessage": "not signed", "alertObject": {"k8sApiObjects": [pod]}}
}
