# METADATA
# title: Selectors
# custom:
#   id: X-002
#   severity: HIGH
#   input:
#     selector:
#     - type: kubernetes
#       subtypes:
#         - kind: pod
#         - {group: apps, version: v1, kind: Deployment}
#     - type: kubernetes
#       subtypes:
#         - {group: service}
#         - kind: gateway
package builtin.kinds

import rego.v1

deny contains result.new(sprintf("%s is evaluated", [input.kind]), input.metadata)
