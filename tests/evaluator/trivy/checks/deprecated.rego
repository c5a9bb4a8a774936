# METADATA
# title: Deprecated
# custom: {id: X-006, deprecated: true, input: {selector: [{type: kubernetes}]}}
package user.deprecated

import rego.v1

deny contains "deprecated"
