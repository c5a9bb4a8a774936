package lib.namespaces_test

import data.lib.build_test as build
import data.lib.namespaces

namespace(name, patch) := object.union({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, patch)

test_name if {
	every name in ["shop", "default"] {
		namespaces.name == name with input as namespace(name, {})
	}
	namespaces.name == "shop" with input as namespace("shop", {"metadata": {"deletionTimestamp": null}})
	every other in [
		namespace("kube-system", {}),
		namespace("kube-public", {}),
		namespace("kube-node-lease", {}),
		namespace("shop", {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
		namespace("shop", {"kind": "Node"}),
		namespace("shop", {"apiVersion": "example.com/v1"}),
	] {
		not namespaces.name with input as other
	}
}

in_namespace(name, item) := object.union(item, {"metadata": {"namespace": name}})

test_used if {
	every item in build.workloads({}) {
		is_used("shop", build.inventory([in_namespace("shop", item)])) == uses(item)
		not is_used("shop", build.inventory([in_namespace("bank", item)]))
		not is_used("kube-system", build.inventory([in_namespace("kube-system", item)]))
	}
	not is_used("shop", {})
	not is_used("shop", {"namespace": {"shop": {"v1": {"Pod": {}}}}})
}

test_objects_of_a_kind if {
	pods := build.inventory([in_namespace("shop", build.pod({}))])
	namespaces.has("v1", "Pod") with input as namespace("shop", {}) with data.inventory as pods
	every store in [{}, {"namespace": {"shop": {"v1": {"Pod": {}}}}}] {
		not namespaces.has("v1", "Pod") with input as namespace("shop", {}) with data.inventory as store
	}
}

uses(item) if item.kind != "PodTemplate"

uses(item) := false if item.kind == "PodTemplate"

default is_used(_, _) := false

is_used(name, store) if {
	namespaces.is_used with input as namespace(name, {}) with data.inventory as store
}

test_selected if {
	store := build.inventory([namespace("shop", {"metadata": {"labels": {"team": "shop"}}}), namespace("bank", {"metadata": {"labels": {"kubernetes.io/metadata.name": "bank"}}})])
	every selector in [
		{},
		{"matchLabels": {"team": "shop"}},
		{"matchLabels": {"kubernetes.io/metadata.name": "bank"}},
		{"matchLabels": {"kubernetes.io/metadata.name": "shop", "team": "shop"}},
		{"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["other", "bank"]}]},
	] {
		namespaces.selects_any(selector) with data.inventory as store
	}
	every selector in [
		null,
		{"matchLabels": {"team": "bank"}},
		{"matchLabels": {"name": "shop"}},
		{"matchLabels": {"kubernetes.io/metadata.name": "gone"}, "matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
		{"matchLabels": {"kubernetes.io/metadata.name": "other"}},
		{"matchLabels": {"kubernetes.io/metadata.name": "bank", "team": "shop"}},
		{"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["other"]}]},
	] {
		not namespaces.selects_any(selector) with data.inventory as store
	}
}

test_namespaces_of_every_cluster if {
	every selector in [
		{"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
		{"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["default"]}]},
		{"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
	] {
		namespaces.selects_any(selector) with data.inventory as {}
	}
	not namespaces.selects_any({"matchLabels": {"team": "shop"}}) with data.inventory as {}
	not namespaces.selects_any({"matchLabels": {"kubernetes.io/metadata.name": "shop"}}) with data.inventory as {}
}
