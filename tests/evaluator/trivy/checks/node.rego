# METADATA
# title: About nodes
# custom: {id: X-010, input: {selector: [{type: kubernetes, subtypes: [{kind: nodeinfo}]}]}}
package user.node

import rego.v1

deny contains "a node"
