package references.webhooks_test

import data.lib.build_test as build

# For the pages of the rules. Both manifests are checked beside these objects.
examples := {
	"deny_unreachable_service": {
		"beside": [service([{"port": 443}])],
		"violating": validating([webhook({"clientConfig": calling({"namespace": "policy", "name": "wbehook"})})]),
		"correct": validating([webhook({})]),
	},
	"deny_own_pods": {
		"beside": [namespace({"kubernetes.io/metadata.name": "policy"})],
		"violating": validating([webhook({"rules": [pods]})]),
		"correct": validating([webhook({"rules": [pods], "namespaceSelector": others})]),
	},
}

test_examples if {
	every rule, example in examples {
		store := build.inventory(example.beside)
		count(data.references.webhooks[rule]) == 1 with input as example.violating with data.inventory as store
		count(data.references.webhooks[rule]) == 0 with input as example.correct with data.inventory as store
	}
}

pods := {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}

others := {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["policy"]}]}

calling(target) := {"service": object.union({"namespace": "policy", "name": "webhook"}, target)}

webhook(fields) := object.union({"name": "pods.policy.example.com", "clientConfig": calling({})}, fields)

validating(webhooks) := admission("ValidatingWebhookConfiguration", webhooks)

admission(kind, webhooks) := {
	"apiVersion": "admissionregistration.k8s.io/v1",
	"kind": kind,
	"metadata": {"name": "policy"},
	"webhooks": webhooks,
}

api_service(target) := {
	"apiVersion": "apiregistration.k8s.io/v1",
	"kind": "APIService",
	"metadata": {"name": "v1.metrics.example.com"},
	"spec": object.union({"group": "metrics.example.com"}, calling(target)),
}

definition(target) := {
	"apiVersion": "apiextensions.k8s.io/v1",
	"kind": "CustomResourceDefinition",
	"metadata": {"name": "webs.example.com"},
	"spec": {"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": calling(target)}}},
}

service(ports) := {
	"apiVersion": "v1",
	"kind": "Service",
	"metadata": {"name": "webhook", "namespace": "policy"},
	"spec": {"selector": {"app": "web"}, "ports": ports},
}

namespace(labels) := {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "policy", "labels": labels}}

workload(kind, replicas) := object.union(
	build.templated("apps/v1", kind, {}),
	{"metadata": {"namespace": "policy"}, "spec": {"replicas": replicas}},
)

unreachable(item, objects) := results if {
	results := data.references.webhooks.deny_unreachable_service with input as item with data.inventory as build.inventory(objects)
}

callers(target) := {
	"APIService": api_service(target),
	"conversion": definition(target),
	"webhook": validating([webhook({"clientConfig": calling(target)})]),
}

https := service([{"port": 443}])

test_missing_service if {
	every caller, item in callers({}) {
		absent := {sprintf("%s Service \"policy/webhook\" does not exist (requests are rejected): create it", [caller])}
		build.messages(unreachable(item, [])) == absent
		build.messages(unreachable(item, [object.union(https, {"metadata": {"name": "other"}})])) == absent
		build.messages(unreachable(item, [object.union(https, {"metadata": {"namespace": "other"}})])) == absent
		unreachable(item, [https]) == set()
	}
	build.fields(unreachable(api_service({}), [])) == {"spec.service"}
	build.fields(unreachable(definition({}), [])) == {"spec.conversion.webhook.clientConfig.service"}
	unreachable(admission("MutatingWebhookConfiguration", [{"clientConfig": {"url": "https://policy.example.com"}}, webhook({"failurePolicy": null})]), []) == {{
		"msg": "webhook Service \"policy/webhook\" does not exist (requests are rejected): create it",
		"details": {"field": "webhooks[1].clientConfig.service", "value": "policy/webhook"},
	}}
}

test_port_of_the_service if {
	every port in [8443, 443] {
		every caller, item in callers({"port": port}) {
			unreachable(item, [service([{"port": 80}, {"port": port}])]) == set()
			wrong := {sprintf("%s Service \"policy/webhook\" has no port %d (requests are rejected): correct the port", [caller, port])}
			build.messages(unreachable(item, [service([{"port": 80}])])) == wrong
			build.messages(unreachable(item, [service(null)])) == wrong
		}
	}
	unreachable(validating([webhook({"clientConfig": calling({"port": null})})]), [https]) == set()
	count(unreachable(api_service({}), [service([{"port": 8443}])])) == 1
}

test_ignored_failures if {
	results := unreachable(validating([webhook({"failurePolicy": "Ignore"})]), [])
	{object.remove(result, ["details"]) | some result in results} == {{
		"msg": "webhook Service \"policy/webhook\" does not exist (requests are not checked): create it",
		"severity": "medium",
	}}
	severities := {object.get(result, "severity", "") | some result in unreachable(validating([webhook({"failurePolicy": "Fail"})]), [])}
	severities == {""}
}

test_service_is_reported_once if {
	two := validating([webhook({}), webhook({"name": "other.example.com"})])
	build.fields(unreachable(two, [])) == {"webhooks[0].clientConfig.service"}
}

test_workloads_without_replicas if {
	stopped := {"webhook Service \"policy/webhook\" has only workloads with 0 replicas (requests are rejected): scale one up"}
	item := validating([webhook({})])
	every kind in ["Deployment", "StatefulSet"] {
		build.messages(unreachable(item, [https, workload(kind, 0)])) == stopped
		unreachable(item, [https, workload(kind, 1)]) == set()
		unreachable(item, [https, workload(kind, null)]) == set()
		unreachable(item, [https, object.union(workload(kind, 0), {"spec": {"template": {"metadata": {"labels": {"app": "api"}}}}})]) == set()
		unreachable(item, [https, object.union(workload(kind, 0), {"metadata": {"namespace": "other"}})]) == set()
	}
	unreachable(item, [https, workload("Deployment", 0), workload("StatefulSet", 1)]) == set()
	daemon_set := object.remove(build.templated("apps/v1", "DaemonSet", {}), [])
	unreachable(item, [https, workload("Deployment", 0), object.union(daemon_set, {"metadata": {"namespace": "policy"}})]) == set()

	# One problem of a Service is enough.
	count(unreachable(item, [service([{"port": 80}]), workload("Deployment", 0)])) == 1
}

test_external_name if {
	external := object.union(service(null), {"spec": {"type": "ExternalName", "selector": null}})
	unreachable(api_service({}), [external]) == set()
}

test_no_service_is_called if {
	every item in [
		validating([{"name": "a", "clientConfig": {"url": "https://policy.example.com"}}, {"name": "b", "clientConfig": null}]),
		validating(null),
		validating([webhook({"failurePolicy": "Later"})]),
		validating([webhook({"clientConfig": calling({"name": null})}), webhook({"clientConfig": calling({"namespace": null})})]),
		object.union(api_service({}), {"spec": {"service": null}}),
		object.union(definition({}), {"spec": {"conversion": {"strategy": "None"}}}),
		object.union(validating([webhook({})]), {"apiVersion": "example.com/v1"}),
		object.union(validating([webhook({})]), {"kind": "WebhookConfiguration"}),
		object.union(api_service({}), {"apiVersion": "example.com/v1"}),
		object.union(api_service({}), {"kind": "Backend"}),
		object.union(definition({}), {"apiVersion": "example.com/v1"}),
		object.union(definition({}), {"kind": "Definition"}),
	] {
		unreachable(item, []) == set()
	}
}

own(fields, objects) := results if {
	item := validating([webhook(object.union({"rules": [pods]}, fields))])
	results := data.references.webhooks.deny_own_pods with input as item with data.inventory as build.inventory(objects)
}

test_webhook_for_its_own_pods if {
	every change in [
		{"resources": ["*"]},
		{"resources": ["*/*"]},
		{"resources": ["configmaps", "pods/*"]},
		{"apiGroups": ["apps", "*"]},
		{"operations": ["*"]},
		{"operations": ["UPDATE", "CREATE"]},
	] {
		count(own({"rules": [object.union(pods, change)]}, [])) == 1
	}
	every fields in [
		{"failurePolicy": "Fail"},
		{"failurePolicy": null},
		{"objectSelector": {}, "namespaceSelector": {}, "matchConditions": []},
		{"objectSelector": null, "namespaceSelector": null, "matchConditions": null},
	] {
		count(own(fields, [])) == 1
	}
	own({}, []) == {{
		"msg": "pods of the webhook in namespace \"policy\" cannot start without it: exclude the namespace in namespaceSelector",
		"details": {"field": "webhooks[0].namespaceSelector", "value": {}},
	}}
	mutating := admission("MutatingWebhookConfiguration", [webhook({"rules": [pods]})])
	count(data.references.webhooks.deny_own_pods) == 1 with input as mutating
}

test_rules_for_other_objects if {
	every change in [
		{"resources": ["pods/exec"]},
		{"resources": ["configmaps"]},
		{"resources": null},
		{"apiGroups": ["apps"]},
		{"operations": ["UPDATE"]},
	] {
		own({"rules": [object.union(pods, change)]}, []) == set()
	}
	own({"rules": null}, []) == set()
}

test_webhooks_that_exclude_pods if {
	own({"failurePolicy": "Ignore"}, []) == set()
	own({"objectSelector": {"matchLabels": {"inject": "true"}}}, []) == set()
	own({"matchConditions": [{"name": "a", "expression": "false"}]}, []) == set()
	own({"clientConfig": {"url": "https://policy.example.com", "service": null}}, []) == set()
}

test_namespace_selectors if {
	enabled := {"matchLabels": {"policy": "enabled"}}
	own({"namespaceSelector": others}, [namespace({})]) == set()
	own({"namespaceSelector": enabled}, [namespace({})]) == set()
	own({"namespaceSelector": enabled}, [namespace(null)]) == set()
	count(own({"namespaceSelector": enabled}, [namespace({"policy": "enabled"})])) == 1
	by_name := {"matchLabels": {"kubernetes.io/metadata.name": "policy"}}
	count(own({"namespaceSelector": by_name}, [namespace({})])) == 1

	# Its labels are unknown.
	own({"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}}, []) == set()
}

test_own_pods_of_other_kinds if {
	item := validating([webhook({"rules": [pods]})])
	every change in [{"apiVersion": "example.com/v1"}, {"kind": "WebhookConfiguration"}] {
		count(data.references.webhooks.deny_own_pods) == 0 with input as object.union(item, change)
	}
}
