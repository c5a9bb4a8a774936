# METADATA
# title: Values of every form
# custom:
#   id: X-001
#   severity: UNKNOWN
#   input: {selector: [{type: kubernetes}]}
package user.forms

import rego.v1

deny contains "a text" if input.spec

deny contains ["a list", {"msg": "another", "startline": 3}] if input.spec

deny contains [1] if input.spec

deny contains [] if input.metadata.labels

deny contains {"msg": ""} if input.metadata.namespace

deny contains {"other": "x"} if input.kind == "Pod"

deny contains 7 if input.kind == "Pod"

deny contains result.new(sprintf("%s of %s", [container.name, input.metadata.name]), container) if {
	some container in input.spec.containers
}

deny_ contains null if input.kind == "Service"

deny_complete := "one" if input.kind == "Job"

deny_list := ["a", {"msg": "b"}] if input.kind == "CronJob"

deny_object := {"msg": "an object", "resource": "r"} if input.kind == "Role"

deny_partial[name] := "x" if some name in ["msg", "other"]

default deny_default := false

deny_default if input.kind == "LimitRange"

default deny_empty := ""

denying contains "not evaluated"

warn contains "not evaluated either"

violation contains "nor this"

exception contains ["complete"]

deny contains "not managed" if not isManaged(input.spec)

deny contains "not managed by itself" if not isManaged({"managed": false})
