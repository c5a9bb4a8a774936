package namespaces_test

import data.lib.build_test as build

label := "pod-security.kubernetes.io/enforce"

shop(patch) := object.union({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}, patch)

enforcing(level) := shop({"metadata": {"labels": {label: level}}})

web := object.union(build.deployment({}), {"metadata": {"namespace": "shop"}})

# For the pages of the rules; with the objects beside each of both.
examples := {"deny_missing_level": {
	"violating": shop({}),
	"correct": enforcing("baseline"),
	"beside": {"violating": [web], "correct": [web]},
}}

results(namespace, objects) := found if {
	found := data.namespaces.deny_missing_level with input as namespace with data.inventory as build.inventory(objects)
}

test_level if {
	every level in ["privileged", "baseline", "restricted"] {
		results(enforcing(level), [web]) == set()
	}
	every level in [null, "", "Baseline", "strict"] {
		{result.details.value | some result in results(enforcing(level), [web])} == {level}
	}
}

test_no_level if {
	results(shop({}), [web]) == {{
		"msg": "namespace enforces no Pod Security level: set the label pod-security.kubernetes.io/enforce",
		"details": {"field": "metadata.labels[\"pod-security.kubernetes.io/enforce\"]", "value": null},
	}}
	every labels in [null, {}, {"pod-security.kubernetes.io/warn": "restricted", "pod-security.kubernetes.io/audit": "restricted"}] {
		count(results(shop({"metadata": {"labels": labels}}), [web])) == 1
	}
}

test_only_namespaces_in_use if {
	results(shop({}), []) == set()
	results(shop({}), [object.union(web, {"metadata": {"namespace": "bank"}})]) == set()
	count(results(shop({}), [object.union(web, {"spec": {"replicas": 0}})])) == 1
}

test_system_namespaces_and_other_kinds if {
	in_system := object.union(web, {"metadata": {"namespace": "kube-system"}})
	results(shop({"metadata": {"name": "kube-system"}}), [in_system]) == set()
	results(shop({"kind": "Node"}), [web]) == set()
	results(shop({"apiVersion": "example.com/v1"}), [web]) == set()
}

test_openshift if {
	results(shop({"metadata": {"annotations": {"openshift.io/sa.scc.uid-range": "1000680000/10000"}}}), [web]) == set()
	count(results(shop({"metadata": {"annotations": {"openshift.io/display-name": "Shop"}}}), [web])) == 1
}

object_named(kind, name) := {"apiVersion": kind[0], "kind": kind[1], "metadata": {"name": name}}

test_admission_policies if {
	every kind in [
		["admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"],
		["kyverno.io/v1", "ClusterPolicy"],
		["policies.kubewarden.io/v1", "ClusterAdmissionPolicy"],
		["policies.kubewarden.io/v1", "ClusterAdmissionPolicyGroup"],
		["policies.kyverno.io/v1", "ValidatingPolicy"],
		["policies.kyverno.io/v1alpha1", "ValidatingPolicy"],
		["policies.kyverno.io/v1beta1", "ValidatingPolicy"],
		["templates.gatekeeper.sh/v1", "ConstraintTemplate"],
		["templates.gatekeeper.sh/v1beta1", "ConstraintTemplate"],
	] {
		every name in ["disallow-privileged-containers", "k8spspcapabilities", "pod-security", "podsecurity-baseline"] {
			results(shop({}), [web, object_named(kind, name)]) == set()
		}
		count(results(shop({}), [web, object_named(kind, "required-labels")])) == 1
	}
	count(results(shop({}), [web, object_named(["rbac.authorization.k8s.io/v1", "ClusterRole"], "privileged")])) == 1
}

kyverno_policy(rule) := object.union(object_named(["kyverno.io/v1", "ClusterPolicy"], "baseline"), {"spec": {"rules": [rule]}})

test_pod_security_in_a_policy_of_another_name if {
	other := object_named(["kyverno.io/v1", "ClusterPolicy"], "required-labels")
	results(shop({}), [web, other, kyverno_policy({"validate": {"podSecurity": {"level": "baseline"}}})]) == set()
	count(results(shop({}), [web, kyverno_policy({"validate": {"pattern": {}}})])) == 1
}
