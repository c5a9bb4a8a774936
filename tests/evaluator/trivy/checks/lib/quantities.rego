# METADATA
# custom:
#   library: true
#   input:
#     selector:
#     - type: kubernetes
package lib.quantities

import rego.v1

cpu(container) := units.parse(container.resources.limits.cpu)
