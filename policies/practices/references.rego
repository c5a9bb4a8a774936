# METADATA
# title: "Practices: references"
# description: |
#   Broken references that have little effect, or are intended in some clusters.
# custom: {excusable: true}
package practices.references

# METADATA
# title: StatefulSet without a headless Service
# description: |
#   The pods of a StatefulSet get DNS names only from the headless Service that spec.serviceName names. Off by default, since many
#   applications do not use these names. A StatefulSet without serviceName is not reported.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#stable-network-id
# custom:
#   id: REF-10
#   severity: low
#   lookups: complete
warn_missing_headless_service contains result if {
	input.kind == "StatefulSet"
	input.apiVersion == "apps/v1"
	name := input.spec.serviceName
	not name in {null, ""}
	not is_headless(name)
	result := {
		"msg": sprintf("there is no headless Service \"%v\", so pods have no DNS names: create it", [name]),
		"details": {"field": "spec.serviceName", "value": name},
	}
}

# METADATA
# title: Monitor without a target
# description: |
#   A ServiceMonitor that selects no Service, or a PodMonitor that selects no pod, collects nothing. Off by default, since charts
#   create monitors for parts that are not installed.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors
# custom:
#   id: REF-11
#   severity: low
#   lookups: complete
warn_missing_monitored contains result if {
	some kind in unmatched
	result := {
		"msg": sprintf("spec.selector selects no %s: correct it, or spec.namespaceSelector", [kind]),
		"details": {"field": "spec.selector", "value": input.spec.selector},
	}
}

# METADATA
# title: Conflicting Ingress rules
# description: |
#   Which of two Ingresses with the same host and path gets the requests depends on the controller and on their age. Both are
#   reported. Off by default, since some teams share a path on purpose. Not reported are canaries, Ingresses of other classes, and
#   classes with a load balancer for each Ingress.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/services-networking/ingress/#ingress-rules
# custom:
#   id: REF-12
#   severity: medium
warn_conflicting_rule contains result if {
	input.kind == "Ingress"
	input.apiVersion == "networking.k8s.io/v1"
	not is_canary(input)
	not class_of(input) in {"alb", "gce", "gce-internal"}
	some result in data.lib.results.once([flaw |
		some other in data.lib.neighbours.everywhere("networking.k8s.io/v1", "Ingress")
		class_of(other) == class_of(input)
		identity(other) != identity(input)
		not is_canary(other)
		keys := {path.key | some path in paths(other)}
		some path in paths(input)
		path.key in keys
		[host, value, _] := path.key
		flaw := {
			"msg": sprintf("path %s of host \"%s\" is also in Ingress \"%s\": remove it from one of them", [value, host, identity(other)]),
			"details": {"field": path.field, "value": value, "host": host, "other": identity(other)},
		}
	])
}

is_headless(name) if data.lib.neighbours.in_namespace("v1", "Service")[name].spec.clusterIP == "None"

unmatched contains "Service" if {
	input.kind == "ServiceMonitor"
	input.apiVersion == "monitoring.coreos.com/v1"
	every service in services {
		not data.lib.selectors.matches(input.spec.selector, data.lib.selectors.labels(service.metadata))
	}
}

# The pods of all namespaces would be too many to compare.
unmatched contains "pod" if {
	input.kind == "PodMonitor"
	input.apiVersion == "monitoring.coreos.com/v1"
	not is_for_all
	every item in pods {
		not data.lib.selectors.matches(input.spec.selector, item.labels)
	}
}

is_for_all if input.spec.namespaceSelector.any == true

services contains service if {
	is_for_all
	some service in data.lib.neighbours.everywhere("v1", "Service")
}

services contains service if {
	some namespace in namespaces
	some service in data.lib.neighbours.of_namespace(namespace, "v1", "Service")
}

pods contains item if {
	some namespace in namespaces
	some item in data.lib.pods.of_namespace(namespace)
}

namespaces := {name | some name in input.spec.namespaceSelector.matchNames} if {
	count(input.spec.namespaceSelector.matchNames) > 0
} else := {object.get(input.metadata, "namespace", "")}

is_canary(ingress) if ingress.metadata.annotations["nginx.ingress.kubernetes.io/canary"] == "true"

class_of(ingress) := class if {
	class := ingress.spec.ingressClassName
	is_string(class)
} else := object.get(ingress, ["metadata", "annotations", "kubernetes.io/ingress.class"], "")

identity(object) := sprintf("%s/%s", [object.metadata.namespace, object.metadata.name])

identity(object) := object.metadata.name if not object.metadata.namespace

paths(ingress) := [{"key": [host, path, type], "field": sprintf("spec.rules[%d].http.paths[%d].path", [i, j])} |
	some i, rule in ingress.spec.rules
	some j, item in rule.http.paths
	host := text(rule, "host", "*")
	path := text(item, "path", "/")
	type := text(item, "pathType", "ImplementationSpecific")
]

# What is no text counts as unset.
text(parent, key, otherwise) := value if {
	value := parent[key]
	is_string(value)
} else := otherwise
