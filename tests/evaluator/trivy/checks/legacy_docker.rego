package user.legacy_docker

__rego_metadata__ := {"id": "X-004", "title": "Not for Kubernetes", "severity": "LOW"}

__rego_input__ := {"selector": [{"type": "dockerfile"}]}

deny[res] {
	squealer.scan_string(input.stages[0].commands[0].original).transgressionFound
	res := result.new("a secret", input)
}
