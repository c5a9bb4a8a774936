package lib.images

import rego.v1

of(object) := {container.image | some container in object.spec.template.spec.containers} | {container.image |
	some container in object.spec.containers
}

tag(image) := split(image, ":")[1] if contains(image, ":")

tag(image) := "latest" if not contains(image, ":")
