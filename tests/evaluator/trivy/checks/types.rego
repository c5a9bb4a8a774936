# METADATA
# title: For two types at once
# custom: {id: X-009, input: {selector: [{type: kubernetes}, {type: rbac}]}}
package user.types

import rego.v1

deny contains "two types"
