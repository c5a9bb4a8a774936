# METADATA
# title: "Practices: namespaces"
# description: Namespaces as boundaries between teams and applications.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/
package practices.namespaces

# METADATA
# title: Default Namespace
# description: |
#   The Namespace default is used by everything that names none, so permissions, quotas and policies for one application cannot be
#   set there. Reported are workloads and Services, only if their Namespace is given.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/#initial-namespaces
# custom:
#   id: NS-02
#   severity: low
#   frameworks: {cis-1.12: ["5.7.4"]}
warn_default_namespace contains result if {
	is_placed
	input.metadata.namespace == "default"
	result := {
		"msg": "object is in the namespace default: set metadata.namespace to a namespace of the application",
		"details": {"field": "metadata.namespace", "value": "default"},
	}
}

# METADATA
# title: Namespace without quota
# description: |
#   Without a ResourceQuota or a LimitRange, the pods of one Namespace can use all resources of the cluster. Not reported for
#   Namespaces without pods and workloads.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/policy/resource-quotas/
# custom:
#   id: NS-03
#   severity: info
#   lookups: complete
#   frameworks: {nsa-1.2: [resource-policies]}
warn_missing_quota contains result if {
	data.lib.namespaces.is_used
	not data.lib.namespaces.has("v1", "ResourceQuota")
	not data.lib.namespaces.has("v1", "LimitRange")
	result := {
		"msg": "namespace has neither a ResourceQuota nor a LimitRange: add a ResourceQuota for CPU and memory",
		"details": {},
	}
}

is_placed if data.lib.workload.holder

# The API server creates the Service kubernetes.
is_placed if {
	input.kind == "Service"
	input.apiVersion == "v1"
	input.metadata.name != "kubernetes"
}
