module kaudit/tests/tools/opa-cases

go 1.26.0

require github.com/open-policy-agent/opa v1.22.0

require go.yaml.in/yaml/v3 v3.0.5 // indirect
