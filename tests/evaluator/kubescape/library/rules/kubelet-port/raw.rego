package armo_builtins

import rego.v1

deny contains {"alertMessage": "x"} if input[_].port
