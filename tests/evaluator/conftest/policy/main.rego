package main

import rego.v1

import data.lib.images
import data.limits

deny contains "a Pod of its own" if {
	input.kind == "Pod"
	not input.metadata.ownerReferences
}

deny_replicas contains msg if {
	input.spec.replicas > limits.replicas
	msg := sprintf("%d replicas, %d at most", [input.spec.replicas, limits.replicas])
}

violation_image contains {"msg": msg, "details": {"image": image, "tag": images.tag(image)}} if {
	some image in images.of(input)
	images.tag(image) == "latest"
	msg := sprintf("image %s", [image])
}

# Several definitions of one rule, of which two have the same message.
warn contains msg if {
	not input.metadata.labels.team
	msg := "no team"
}

warn contains "no team" if not input.metadata.labels

warn_ports contains {"msg": sprintf("port %v", [port]), "severity": "low", "ports": {port}} if {
	some port in input.spec.ports[_]
	is_number(port)
}

exception contains rules if {
	input.metadata.annotations.excepted == "replicas"
	rules := ["replicas", "image"]
}

exception contains [""] if input.metadata.annotations.excepted == "bare"
