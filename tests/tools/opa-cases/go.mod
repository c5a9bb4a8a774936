module kaudit/tests/tools/opa-cases

go 1.26.0

require github.com/open-policy-agent/opa v1.22.0

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/xeipuuv/gojsonpointer v0.0.0-20190905194746-02993c407bfb // indirect
	github.com/xeipuuv/gojsonreference v0.0.0-20180127040603-bd5ef7bd5415 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)
