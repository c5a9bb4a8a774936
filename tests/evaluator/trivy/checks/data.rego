# METADATA
# title: Parameters
# custom:
#   id: X-005
#   severity: MEDIUM
#   input: {selector: [{type: kubernetes}]}
package user.parameters

import rego.v1

import data.lib.quantities
import data.parameters.registries

deny contains result.new(sprintf("%s is from none of %d registries", [container.image, count(registries)]), container) if {
	some container in input.spec.containers
	not trusted(container.image)
}

trusted(image) if startswith(image, registries[_])

deny_cpu contains result.new(sprintf("%s has a limit of %v", [container.name, cpu]), container.resources) if {
	some container in input.spec.containers
	cpu := quantities.cpu(container)
	cpu > 0.5
}
