# METADATA
# title: A single replica
package bench.replicas

deny contains msg if {
	input.kind == "Deployment"
	input.metadata.labels["app.kubernetes.io/part-of"] == "checkout"
	input.spec.replicas < 2
	msg := sprintf("%s is part of the checkout and has a single replica", [input.metadata.name])
}
