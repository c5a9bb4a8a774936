# METADATA
# title: In several frameworks
# custom: {id: X-008, frameworks: {house: [r1], default: [r2]}, input: {selector: [{type: kubernetes}]}}
package user.frameworks

import rego.v1

deny contains "several frameworks"
