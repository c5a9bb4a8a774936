# METADATA
# title: Namespaces
# description: The Pod Security level that a Namespace enforces.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/security/pod-security-admission/
package namespaces

# METADATA
# title: Namespace without a Pod Security level
# description: |
#   Without an enforced level, the API server accepts every pod, also one with all rights on its node. Not reported if a policy of
#   Gatekeeper, Kyverno, Kubewarden or a ValidatingAdmissionPolicy seems by its name to check this, and on OpenShift. A default level
#   in the configuration of the API server is not visible in objects.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/security/pod-security-admission/#pod-security-admission-labels-for-namespaces
# custom:
#   id: NS-01
#   severity: medium
#   lookups: complete
#   frameworks: {cis-1.12: ["5.2.1"], nsa-1.2: [pod-security-levels]}
deny_missing_level contains result if {
	data.lib.namespaces.is_used
	level := object.get(input.metadata, ["labels", label], null)
	not level in {"baseline", "privileged", "restricted"}
	not input.metadata.annotations["openshift.io/sa.scc.uid-range"]
	not has_admission_policy
	result := {
		"msg": sprintf("namespace enforces no Pod Security level: set the label %s", [label]),
		"details": {"field": sprintf("metadata.labels[\"%s\"]", [label]), "value": level},
	}
}

label := "pod-security.kubernetes.io/enforce"

# Names such as disallow-privileged-containers, k8spspprivilegedcontainer and pod-security.
has_admission_policy if {
	some name in admission_policies
	regex.match(`privilege|psp|pod-?security`, name)
}

has_admission_policy if {
	some policy in data.lib.neighbours.of_cluster("kyverno.io/v1", "ClusterPolicy")
	policy.spec.rules[_].validate.podSecurity
}

admission_policies := union({
	names("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"),
	names("kyverno.io/v1", "ClusterPolicy"),
	names("policies.kubewarden.io/v1", "ClusterAdmissionPolicy"),
	names("policies.kubewarden.io/v1", "ClusterAdmissionPolicyGroup"),
	names("policies.kyverno.io/v1", "ValidatingPolicy"),
	names("policies.kyverno.io/v1alpha1", "ValidatingPolicy"),
	names("policies.kyverno.io/v1beta1", "ValidatingPolicy"),
	names("templates.gatekeeper.sh/v1", "ConstraintTemplate"),
	names("templates.gatekeeper.sh/v1beta1", "ConstraintTemplate"),
})

names(version, kind) := {name | some name, _ in data.lib.neighbours.of_cluster(version, kind)}
