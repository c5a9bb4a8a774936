package armo_builtins

import rego.v1

deny contains result if {
	namespaces := [object | object := input[_]; object.kind == "Namespace"]
	namespace := namespaces[_]
	quotas := [object.metadata.namespace | object := input[_]; object.kind == "ResourceQuota"]
	not namespace.metadata.name in quotas
	result := {
		"alertMessage": sprintf("namespace %v has no quota", [namespace.metadata.name]),
		"alertScore": 3,
		"alertObject": {"k8SApiObjects": [namespace]},
	}
}
