package deprecated_apis_test

import data.lib.build_test as build

manifest(version, kind) := {"apiVersion": version, "kind": kind, "metadata": {"name": "web"}}

live(version, kind, entries) := {
	"apiVersion": version,
	"kind": kind,
	"metadata": {"name": "web", "uid": "4f1c", "managedFields": entries},
}

results(policy) := {result.msg | some result in policy}

# For the pages of the rules.
examples := {
	"deny_removed_version": {
		"violating": manifest("batch/v1beta1", "CronJob"),
		"correct": manifest("batch/v1", "CronJob"),
	},
	"warn_deprecated_version": {
		"violating": manifest("networking.k8s.io/v1beta1", "ServiceCIDR"),
		"correct": manifest("networking.k8s.io/v1", "ServiceCIDR"),
	},
	"warn_old_writer": {
		"violating": live("policy/v1", "PodDisruptionBudget", [{"manager": "helm", "apiVersion": "policy/v1beta1", "operation": "Update"}]),
		"correct": live("policy/v1", "PodDisruptionBudget", [{"manager": "helm", "apiVersion": "policy/v1", "operation": "Update"}]),
	},
}

test_gone if {
	every case in [
		["extensions/v1beta1", "Ingress"],
		["policy/v1beta1", "PodSecurityPolicy"],
		["batch/v1beta1", "CronJob"],
		["flowcontrol.apiserver.k8s.io/v1beta3", "FlowSchema"],
		["admissionregistration.k8s.io/v1beta1", "ValidatingAdmissionPolicy"],
	] {
		count(data.deprecated_apis.deny_removed_version) == 1 with input as manifest(case[0], case[1])
		count(data.deprecated_apis.warn_deprecated_version) == 0 with input as manifest(case[0], case[1])
	}
}

test_result if {
	found := data.deprecated_apis.deny_removed_version with input as manifest("batch/v1beta1", "CronJob")
	found == {{
		"msg": "Kubernetes 1.25 removed batch/v1beta1 CronJob: use batch/v1",
		"details": {
			"field": "apiVersion",
			"value": "batch/v1beta1",
			"removed": "1.25",
			"replacement": "batch/v1",
			"source": "https://kubernetes.io/docs/reference/using-api/deprecation-guide/#cronjob-v125",
		},
	}}
}

test_nothing_instead if {
	want := {"Kubernetes 1.25 removed policy/v1beta1 PodSecurityPolicy: there is no replacement"}
	object := manifest("policy/v1beta1", "PodSecurityPolicy")
	results(data.deprecated_apis.deny_removed_version) == want with input as object
}

test_announced if {
	soon := manifest("networking.k8s.io/v1beta1", "ServiceCIDR")
	results := data.deprecated_apis.warn_deprecated_version with input as soon
	results == {{
		"msg": "Kubernetes 1.37 no longer serves networking.k8s.io/v1beta1 ServiceCIDR: use networking.k8s.io/v1",
		"details": {
			"field": "apiVersion",
			"value": "networking.k8s.io/v1beta1",
			"removed": "1.37",
			"replacement": "networking.k8s.io/v1",
			"source": "https://github.com/kubernetes/api/blob/master/networking/v1beta1/zz_generated.prerelease-lifecycle.go",
		},
	}}
	count(data.deprecated_apis.deny_removed_version) == 0 with input as soon
}

# The same kind and version of another group, and served versions.
test_near_misses if {
	every case in [
		["networking.k8s.io/v1", "Ingress"],
		["example.com/v1beta1", "Ingress"],
		["batch/v1beta1", "Job"],
		["autoscaling/v1", "HorizontalPodAutoscaler"],
		["v1", "Pod"],
	] {
		count(data.deprecated_apis.deny_removed_version) == 0 with input as manifest(case[0], case[1])
		count(data.deprecated_apis.warn_deprecated_version) == 0 with input as manifest(case[0], case[1])
	}
	count(data.deprecated_apis.deny_removed_version) == 0 with input as {}
}

# A table of another release moves what is gone.
test_release if {
	old := manifest("flowcontrol.apiserver.k8s.io/v1beta3", "FlowSchema")
	every version in ["1.31", "v1.31.4", "1.9"] {
		count(data.deprecated_apis.deny_removed_version) == 0 with input as old with data.kaudit.kubernetes_version as version
		count(data.deprecated_apis.warn_deprecated_version) == 1 with input as old with data.kaudit.kubernetes_version as version
	}
	every version in ["1.32", "v1.40", "nonsense", 1.3] {
		count(data.deprecated_apis.deny_removed_version) == 1 with input as old with data.kaudit.kubernetes_version as version
		count(data.deprecated_apis.warn_deprecated_version) == 0 with input as old with data.kaudit.kubernetes_version as version
	}
}

# The version of an object in a cluster is the server's choice.
test_live_version if {
	object := live("storage.k8s.io/v1beta1", "CSIDriver", [{"manager": "helm", "apiVersion": "storage.k8s.io/v1beta1"}])
	count(data.deprecated_apis.deny_removed_version) == 0 with input as object
	count(data.deprecated_apis.warn_old_writer) == 0 with input as object
}

test_old_writer if {
	entries := [
		{"manager": "helm", "apiVersion": "policy/v1beta1", "operation": "Update", "time": "2024-05-01T10:00:00Z"},
		{"manager": "helm", "apiVersion": "policy/v1beta1", "operation": "Update", "time": "2024-05-02T10:00:00Z"},
		{"manager": "kubectl", "apiVersion": "policy/v1", "operation": "Apply"},
		{"apiVersion": "policy/v1beta1"},
		{"manager": 1, "apiVersion": "policy/v1beta1"},
	]
	results(data.deprecated_apis.warn_old_writer) == {
		"\"helm\" wrote it through policy/v1beta1, which Kubernetes 1.25 no longer serves: use policy/v1",
		"\"unknown\" wrote it through policy/v1beta1, which Kubernetes 1.25 no longer serves: use policy/v1",
	} with input as live("policy/v1", "PodDisruptionBudget", entries)
	found := data.deprecated_apis.warn_old_writer with input as live("policy/v1", "PodDisruptionBudget", entries)
	build.fields(found) == {"metadata.managedFields"}
}

# Another version that is served, and the version of another kind's scale.
test_writers_in_order if {
	entries := [{"manager": "a", "apiVersion": "autoscaling/v1"}, {"manager": "b", "apiVersion": "apps/v1"}]
	count(data.deprecated_apis.warn_old_writer) == 0 with input as live("autoscaling/v2", "HorizontalPodAutoscaler", entries)
	count(data.deprecated_apis.warn_old_writer) == 0 with input as live("apps/v1", "Deployment", [])
	count(data.deprecated_apis.warn_old_writer) == 0 with input as {"kind": "CronJob", "metadata": {"managedFields": null}}
}

# Every row is whole.
test_table if {
	data.lib.removed_apis.kinds == object.keys(data.lib.removed_apis.removals)
	every versions in data.lib.removed_apis.removals {
		every version, row in versions {
			[minor, replacement, source] := row
			minor > 15
			replacement != version
			regex.match(`^(#[a-z-]+-v1[0-9]{2}|[a-z]+/v[0-9](alpha|beta)[0-9])$`, source)
			startswith(data.lib.removed_apis.page(source), "https://")
		}
	}
}
