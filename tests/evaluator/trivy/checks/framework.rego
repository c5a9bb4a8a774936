# METADATA
# title: In a framework of its own
# custom: {id: X-007, frameworks: {house: [r1]}, input: {selector: [{type: kubernetes}]}}
package user.framework

import rego.v1

deny contains "a framework"
