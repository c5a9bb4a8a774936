# METADATA
# title: References of webhooks
# description: The Services that the API server calls.
# related_resources:
# - ref: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
package references.webhooks

# METADATA
# title: Webhook without a Service
# description: |
#   If the API server cannot call a webhook, the server of an aggregated API or the converter of a custom resource, it rejects
#   requests. The Service is missing or lacks the port, or its workloads are scaled to zero. The severity is medium for webhooks
#   with failurePolicy Ignore, since requests only wait.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/cluster-administration/admission-webhooks-good-practices/
# custom:
#   id: REF-08
#   severity: high
#   lookups: complete
deny_unreachable_service contains result if {
	some result in data.lib.results.once([flaw |
		some call in calls
		found := {service | service := data.lib.neighbours.of_namespace(call.namespace, "v1", "Service")[call.name]}
		[problem, action] := problem_of(call, found)
		flaw := object.union(consequences[call.policy].result, {
			"msg": sprintf("%s Service \"%s/%s\" %s (requests are %s): %s", [call.caller, call.namespace, call.name, problem, consequences[call.policy].text, action]),
			"details": {"field": call.field, "value": sprintf("%s/%s", [call.namespace, call.name])},
		})
	])
}

# METADATA
# title: Webhook that blocks its own pods
# description: |
#   If all pods of an admission webhook are gone, the API server cannot call it, and so rejects the new ones. Not reported are
#   webhooks with an objectSelector or matchConditions, which may exclude these pods.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/cluster-administration/admission-webhooks-good-practices/#dependency-loops
# custom:
#   id: REF-21
#   severity: high
deny_own_pods contains result if {
	is_admission
	some result in data.lib.results.once([flaw |
		some i, webhook in input.webhooks
		given(webhook, "failurePolicy", "Fail") == "Fail"
		some rule in webhook.rules
		is_about_new_pods(rule)
		count(given(webhook, "objectSelector", {})) == 0
		count(given(webhook, "matchConditions", [])) == 0
		namespace := webhook.clientConfig.service.namespace
		selector := given(webhook, "namespaceSelector", {})
		is_for_namespace(selector, namespace)
		flaw := {
			"msg": sprintf("pods of the webhook in namespace \"%s\" cannot start without it: exclude the namespace in namespaceSelector", [namespace]),
			"details": {"field": sprintf("webhooks[%d].namespaceSelector", [i]), "value": selector},
		}
	])
}

consequences := {
	"Fail": {"text": "rejected", "result": {}},
	"Ignore": {"text": "not checked", "result": {"severity": "medium"}},
}

is_admission if {
	input.kind in {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
	input.apiVersion == "admissionregistration.k8s.io/v1"
}

calls contains call if {
	is_admission
	some i, webhook in input.webhooks
	policy := given(webhook, "failurePolicy", "Fail")
	call := call_of("webhook", policy, webhook.clientConfig.service, sprintf("webhooks[%d].clientConfig", [i]))
}

calls contains call_of("APIService", "Fail", input.spec.service, "spec") if {
	input.kind == "APIService"
	input.apiVersion == "apiregistration.k8s.io/v1"
}

calls contains call_of("conversion", "Fail", conversion.webhook.clientConfig.service, "spec.conversion.webhook.clientConfig") if {
	input.kind == "CustomResourceDefinition"
	input.apiVersion == "apiextensions.k8s.io/v1"
	conversion := input.spec.conversion
	conversion.strategy == "Webhook"
}

call_of(caller, policy, service, path) := {
	"caller": caller,
	"policy": policy,
	"namespace": service.namespace,
	"name": service.name,
	"port": given(service, "port", 443),
	"field": sprintf("%s.service", [path]),
} if {
	is_string(service.namespace)
	is_string(service.name)
}

problem_of(_, found) := ["does not exist", "create it"] if {
	count(found) == 0
}

problem_of(call, found) := [sprintf("has no port %v", [call.port]), "correct the port"] if {
	some service in found
	not data.lib.services.has_port(service, call.port)
}

problem_of(call, found) := ["has only workloads with 0 replicas", "scale one up"] if {
	some service in found
	data.lib.services.has_port(service, call.port)
	workloads := workloads_of(call.namespace, service.spec.selector)
	count(workloads) > 0
	every workload in workloads {
		workload.spec.replicas == 0
	}
}

workloads_of(namespace, selector) := [workload |
	some kind in ["DaemonSet", "Deployment", "StatefulSet"]
	some workload in data.lib.pods.objects(namespace, kind)
	data.lib.selectors.matches_map(selector, data.lib.selectors.labels(workload.spec.template.metadata))
]

is_about_new_pods(rule) if {
	some group in rule.apiGroups
	group in {"", "*"}
	some resource in rule.resources
	resource in {"*", "*/*", "pods", "pods/*"}
	some operation in rule.operations
	operation in {"*", "CREATE"}
}

is_for_namespace(selector, _) if selector == {}

is_for_namespace(selector, name) if {
	data.lib.neighbours.of_cluster("v1", "Namespace")[name]
	data.lib.selectors.matches(selector, data.lib.namespaces.labels(name))
}

# Null means unset.
given(parent, key, otherwise) := data.lib.selectors.given(parent, key, otherwise)
