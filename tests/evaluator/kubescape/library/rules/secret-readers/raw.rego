package armo_builtins

import rego.v1

deny contains result if {
	subject := input[_]
	role := subject.relatedObjects[i]
	endswith(role.kind, "Role")
	rule := role.rules[j]
	"secrets" in rule.resources
	result := {
		"alertMessage": sprintf("%v %v reads secrets", [subject.kind, subject.name]),
		"failedPaths": [sprintf("relatedObjects[%d].rules[%d]", [i, j])],
		"alertObject": {"k8sApiObjects": [], "externalObjects": subject},
	}
}
