package practices.references_test

import data.lib.build_test as build

# For the pages of the rules. Both manifests are checked beside these objects.
examples := {
	"warn_missing_headless_service": {
		"beside": [service("db", {"clusterIP": "None"}), service("api", {})],
		"violating": database("api"),
		"correct": database("db"),
	},
	"warn_missing_monitored": {
		"beside": [labelled("Service", "shop")],
		"violating": monitor("ServiceMonitor", {"selector": {"matchLabels": {"app": "wbe"}}}),
		"correct": monitor("ServiceMonitor", {"selector": web}),
	},
	"warn_conflicting_rule": {
		"beside": [ingress("bank", "web", "shop.example.com", "/")],
		"violating": ingress("shop", "web", "shop.example.com", "/"),
		"correct": ingress("shop", "web", "shop.example.com", "/cart"),
	},
}

test_examples if {
	every rule, example in examples {
		store := build.inventory(example.beside)
		count(data.practices.references[rule]) == 1 with input as example.violating with data.inventory as store
		count(data.practices.references[rule]) == 0 with input as example.correct with data.inventory as store
	}
}

service(name, spec) := {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "shop"}, "spec": spec}

database(name) := {
	"apiVersion": "apps/v1",
	"kind": "StatefulSet",
	"metadata": {"name": "db", "namespace": "shop"},
	"spec": {"serviceName": name},
}

headless(item, objects) := results if {
	results := data.practices.references.warn_missing_headless_service with input as item
		with data.inventory as build.inventory(objects)
}

test_missing_headless_service if {
	headless(database("db"), []) == {{
		"msg": "there is no headless Service \"db\", so pods have no DNS names: create it",
		"details": {"field": "spec.serviceName", "value": "db"},
	}}
	every other in [
		service("api", {"clusterIP": "None"}),
		service("db", {}),
		service("db", {"clusterIP": "192.0.2.1"}),
		object.union(service("db", {"clusterIP": "None"}), {"metadata": {"namespace": "bank"}}),
	] {
		count(headless(database("db"), [other])) == 1
	}
}

test_headless_service if {
	headless(database("db"), [service("db", {"clusterIP": "None"})]) == set()
}

test_stateful_sets_that_need_no_service if {
	every name in [null, ""] {
		headless(database(name), []) == set()
	}
	headless(object.remove(database("db"), ["spec"]), []) == set()
	headless(object.union(database("db"), {"apiVersion": "apps.kruise.io/v1beta1"}), []) == set()
	headless(object.union(database("db"), {"kind": "DaemonSet"}), []) == set()
}

web := {"matchLabels": {"app": "web"}}

monitor(kind, spec) := {
	"apiVersion": "monitoring.coreos.com/v1",
	"kind": kind,
	"metadata": {"name": "web", "namespace": "shop"},
	"spec": spec,
}

labelled(kind, namespace) := {
	"apiVersion": "v1",
	"kind": kind,
	"metadata": {"name": "web", "namespace": namespace, "labels": {"app": "web"}},
	"spec": {},
}

unmatched(item, objects) := results if {
	results := data.practices.references.warn_missing_monitored with input as item with data.inventory as build.inventory(objects)
}

kinds := {"PodMonitor": "Pod", "ServiceMonitor": "Service"}

names := {"PodMonitor": "pod", "ServiceMonitor": "Service"}

test_monitor_without_target if {
	every kind, target in kinds {
		unmatched(monitor(kind, {"selector": web}), []) == {{
			"msg": sprintf("spec.selector selects no %s: correct it, or spec.namespaceSelector", [names[kind]]),
			"details": {"field": "spec.selector", "value": web},
		}}
		count(unmatched(monitor(kind, {"selector": {"matchLabels": {"app": "api"}}}), [labelled(target, "shop")])) == 1
		count(unmatched(monitor(kind, {"selector": web}), [labelled(target, "bank")])) == 1
		unmatched(monitor(kind, {"selector": web}), [labelled(target, "shop")]) == set()
		unmatched(monitor(kind, {"selector": {}}), [labelled(target, "shop")]) == set()
	}
}

test_namespaces_of_monitors if {
	every kind, target in kinds {
		every namespaces in [["bank"], ["front", "bank"]] {
			named := monitor(kind, {"selector": web, "namespaceSelector": {"matchNames": namespaces}})
			unmatched(named, [labelled(target, "bank")]) == set()
			count(unmatched(named, [labelled(target, "shop")])) == 1
		}
		every unset in [{}, null, {"matchNames": []}, {"any": false}] {
			own := monitor(kind, {"selector": web, "namespaceSelector": unset})
			unmatched(own, [labelled(target, "shop")]) == set()
			count(unmatched(own, [labelled(target, "bank")])) == 1
		}
	}
}

test_monitor_of_all_namespaces if {
	every_namespace := {"selector": web, "namespaceSelector": {"any": true}}
	services := monitor("ServiceMonitor", every_namespace)
	count(unmatched(services, [])) == 1
	unmatched(services, [labelled("Service", "bank")]) == set()
	unmatched(services, [object.union(object.remove(labelled("Service", "bank"), ["metadata"]), {"metadata": {"name": "web", "labels": {"app": "web"}}})]) == set()
	unmatched(monitor("PodMonitor", every_namespace), []) == set()
}

test_monitor_of_a_workload_without_replicas if {
	workload := object.union(build.deployment({}), {"metadata": {"namespace": "shop"}, "spec": {"replicas": 0}})
	unmatched(monitor("PodMonitor", {"selector": web}), [workload]) == set()
}

test_manifests_without_namespace if {
	every kind, target in kinds {
		item := object.union(object.remove(monitor(kind, {"selector": web}), ["metadata"]), {"metadata": {"name": "web"}})
		count(unmatched(item, [])) == 1
		beside := object.union(object.remove(labelled(target, "shop"), ["metadata"]), {"metadata": {"name": "web", "labels": {"app": "web"}}})
		unmatched(item, [beside]) == set()
		count(unmatched(monitor(kind, {"selector": web}), [beside])) == 1
	}
}

test_other_monitors if {
	every kind, _ in kinds {
		unmatched(object.union(monitor(kind, {"selector": web}), {"apiVersion": "example.com/v1"}), []) == set()
	}
	unmatched(monitor("Probe", {"selector": web}), []) == set()
}

ingress(namespace, name, host, path) := {
	"apiVersion": "networking.k8s.io/v1",
	"kind": "Ingress",
	"metadata": {"name": name, "namespace": namespace},
	"spec": {"rules": [{"host": host, "http": {"paths": [{"path": path, "pathType": "Prefix"}]}}]},
}

shop := ingress("shop", "web", "shop.example.com", "/")

bank := ingress("bank", "web", "shop.example.com", "/")

# The names of the Ingresses with a result among these.
conflicting(ingresses) := {sprintf("%s/%s", [object.get(item.metadata, "namespace", ""), item.metadata.name]) |
	store := build.inventory(ingresses)
	some item in ingresses
	count(data.practices.references.warn_conflicting_rule) > 0 with input as item with data.inventory as store
}

both := {"bank/web", "shop/web"}

test_conflicting_rules if {
	conflicting([shop, bank]) == both
	conflicting([shop, ingress("shop", "api", "shop.example.com", "/")]) == {"shop/api", "shop/web"}
	results := data.practices.references.warn_conflicting_rule with input as shop with data.inventory as build.inventory([shop, bank])
	results == {{
		"msg": "path / of host \"shop.example.com\" is also in Ingress \"bank/web\": remove it from one of them",
		"details": {"field": "spec.rules[0].http.paths[0].path", "value": "/", "host": "shop.example.com", "other": "bank/web"},
	}}
}

test_conflicts_of_unset_fields if {
	conflicting([ingress("shop", "web", null, null), ingress("bank", "web", "*", "/")]) == both
	unset := object.union(shop, {"spec": {"rules": [{"host": "shop.example.com", "http": {"paths": [{}]}}]}})
	explicit := object.union(bank, {"spec": {"rules": [{"host": "shop.example.com", "http": {"paths": [{"path": "/", "pathType": "ImplementationSpecific"}]}}]}})
	conflicting([unset, explicit]) == both
}

in_class(item, class) := object.union(item, {"spec": {"ingressClassName": class}})

annotated(item, annotation, value) := object.union(item, {"metadata": {"annotations": {annotation: value}}})

test_equal_classes if {
	conflicting([in_class(shop, "public"), in_class(bank, "public")]) == both
	conflicting([in_class(shop, "public"), annotated(bank, "kubernetes.io/ingress.class", "public")]) == both
	every unset in ["", null] {
		conflicting([in_class(shop, unset), bank]) == both
	}
	conflicting([annotated(shop, "nginx.ingress.kubernetes.io/canary", "false"), bank]) == both
	every class in ["alb", "gce", "gce-internal"] {
		conflicting([in_class(shop, class), in_class(bank, class)]) == set()
	}
}

test_a_path_is_reported_once if {
	twice := object.union(shop, {"spec": {"rules": array.concat(shop.spec.rules, shop.spec.rules)}})
	results := data.practices.references.warn_conflicting_rule with input as twice with data.inventory as build.inventory([twice, bank])
	build.fields(results) == {"spec.rules[0].http.paths[0].path"}
}

unplaced(name) := object.union(object.remove(shop, ["metadata"]), {"metadata": {"name": name}})

test_ingresses_without_namespace if {
	conflicting([unplaced("a"), unplaced("b")]) == {"/a", "/b"}
	conflicting([unplaced("a")]) == set()
	conflicting([unplaced("a"), shop]) == {"/a", "shop/web"}
}

test_rules_that_do_not_conflict if {
	every other in [
		ingress("bank", "web", "bank.example.com", "/"),
		ingress("bank", "web", "shop.example.com", "/cart"),
		object.union(bank, {"spec": {"rules": [{"host": "shop.example.com", "http": {"paths": [{"path": "/", "pathType": "Exact"}]}}]}}),
		object.union(bank, {"spec": {"ingressClassName": "internal"}}),
		object.union(bank, {"metadata": {"annotations": {"kubernetes.io/ingress.class": "internal"}}}),
		object.union(bank, {"metadata": {"annotations": {"nginx.ingress.kubernetes.io/canary": "true"}}}),
		object.union(bank, {"spec": {"rules": null}}),
		object.union(bank, {"apiVersion": "example.com/v1"}),
		object.union(bank, {"kind": "IngressRoute"}),
	] {
		conflicting([shop, other]) == set()
	}
	conflicting([shop]) == set()
}
