package user.legacy

__rego_metadata__ := {
	"id": "X-003",
	"avd_id": "AVD-X-003",
	"title": "Before annotations",
	"severity": "LOW",
	"type": "Kubernetes Security Check",
	"description": "Metadata in rules",
	"recommended_actions": "Write annotations",
	"url": "https://example.com/x-003",
}

__rego_input__ := {
	"combine": false,
	"selector": [{"type": "kubernetes", "subtypes": [{"kind": "configmap"}, {"kind": "service"}]}],
}

deny[res] {
	input.metadata.name
	msg := sprintf("%s %s", [input.kind, input.metadata.name])
	res := result.new(msg, input)
}
