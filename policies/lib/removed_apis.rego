# METADATA
# title: API versions that Kubernetes removes
# description: |
#   Up to version 1.36 what is removed, and up to 1.39 what is announced. Kinds that are never stored, such as TokenReview,
#   are left out.
# related_resources:
# - ref: https://kubernetes.io/docs/reference/using-api/deprecation-guide/
package lib.removed_apis

# METADATA
# description: |
#   By kind and API version: the minor version of the first release that does not serve it, the API version to use instead
#   ("" where there is none), and the source. A source with # is a section of the Deprecated API Migration Guide, another one
#   a package of k8s.io/api, whose file zz_generated.prerelease-lifecycle.go has the release.
removals := {
	"APIService": {"apiregistration.k8s.io/v1beta1": [22, "apiregistration.k8s.io/v1", "#apiservice-v122"]},
	"CSIDriver": {"storage.k8s.io/v1beta1": [22, "storage.k8s.io/v1", "#storage-resources-v122"]},
	"CSINode": {"storage.k8s.io/v1beta1": [22, "storage.k8s.io/v1", "#storage-resources-v122"]},
	"CSIStorageCapacity": {
		"storage.k8s.io/v1alpha1": [24, "storage.k8s.io/v1", "storage/v1alpha1"],
		"storage.k8s.io/v1beta1": [27, "storage.k8s.io/v1", "#csistoragecapacity-v127"],
	},
	"CertificateSigningRequest": {"certificates.k8s.io/v1beta1": [22, "certificates.k8s.io/v1", "#certificatesigningrequest-v122"]},
	"ClusterRole": {"rbac.authorization.k8s.io/v1beta1": [22, "rbac.authorization.k8s.io/v1", "#rbac-resources-v122"]},
	"ClusterRoleBinding": {"rbac.authorization.k8s.io/v1beta1": [22, "rbac.authorization.k8s.io/v1", "#rbac-resources-v122"]},
	"ClusterTrustBundle": {"certificates.k8s.io/v1alpha1": [37, "certificates.k8s.io/v1beta1", "certificates/v1alpha1"]},
	"CronJob": {"batch/v1beta1": [25, "batch/v1", "#cronjob-v125"]},
	"CustomResourceDefinition": {"apiextensions.k8s.io/v1beta1": [22, "apiextensions.k8s.io/v1", "#customresourcedefinition-v122"]},
	"DaemonSet": {
		"apps/v1beta2": [16, "apps/v1", "#daemonset-v116"],
		"extensions/v1beta1": [16, "apps/v1", "#daemonset-v116"],
	},
	"Deployment": {
		"apps/v1beta1": [16, "apps/v1", "#deployment-v116"],
		"apps/v1beta2": [16, "apps/v1", "#deployment-v116"],
		"extensions/v1beta1": [16, "apps/v1", "#deployment-v116"],
	},
	"DeviceClass": {
		"resource.k8s.io/v1beta1": [38, "resource.k8s.io/v1", "resource/v1beta1"],
		"resource.k8s.io/v1beta2": [39, "resource.k8s.io/v1", "resource/v1beta2"],
	},
	"EndpointSlice": {"discovery.k8s.io/v1beta1": [25, "discovery.k8s.io/v1", "#endpointslice-v125"]},
	"Event": {"events.k8s.io/v1beta1": [25, "events.k8s.io/v1", "#event-v125"]},
	"FlowSchema": {
		"flowcontrol.apiserver.k8s.io/v1beta1": [26, "flowcontrol.apiserver.k8s.io/v1", "#flowcontrol-resources-v126"],
		"flowcontrol.apiserver.k8s.io/v1beta2": [29, "flowcontrol.apiserver.k8s.io/v1", "#flowcontrol-resources-v129"],
		"flowcontrol.apiserver.k8s.io/v1beta3": [32, "flowcontrol.apiserver.k8s.io/v1", "#flowcontrol-resources-v132"],
	},
	"HorizontalPodAutoscaler": {
		"autoscaling/v2beta1": [25, "autoscaling/v2", "#horizontalpodautoscaler-v125"],
		"autoscaling/v2beta2": [26, "autoscaling/v2", "#horizontalpodautoscaler-v126"],
	},
	"IPAddress": {"networking.k8s.io/v1beta1": [37, "networking.k8s.io/v1", "networking/v1beta1"]},
	"Ingress": {
		"extensions/v1beta1": [22, "networking.k8s.io/v1", "#ingress-v122"],
		"networking.k8s.io/v1beta1": [22, "networking.k8s.io/v1", "#ingress-v122"],
	},
	"IngressClass": {"networking.k8s.io/v1beta1": [22, "networking.k8s.io/v1", "#ingressclass-v122"]},
	"Lease": {"coordination.k8s.io/v1beta1": [22, "coordination.k8s.io/v1", "#lease-v122"]},
	"MutatingAdmissionPolicy": {"admissionregistration.k8s.io/v1alpha1": [38, "admissionregistration.k8s.io/v1beta1", "admissionregistration/v1alpha1"]},
	"MutatingAdmissionPolicyBinding": {"admissionregistration.k8s.io/v1alpha1": [38, "admissionregistration.k8s.io/v1beta1", "admissionregistration/v1alpha1"]},
	"MutatingWebhookConfiguration": {"admissionregistration.k8s.io/v1beta1": [22, "admissionregistration.k8s.io/v1", "#webhook-resources-v122"]},
	"NetworkPolicy": {"extensions/v1beta1": [16, "networking.k8s.io/v1", "#networkpolicy-v116"]},
	"PodDisruptionBudget": {"policy/v1beta1": [25, "policy/v1", "#poddisruptionbudget-v125"]},
	"PodSecurityPolicy": {
		"extensions/v1beta1": [16, "", "#psp-v116"],
		"policy/v1beta1": [25, "", "#psp-v125"],
	},
	"PriorityClass": {"scheduling.k8s.io/v1beta1": [22, "scheduling.k8s.io/v1", "#priorityclass-v122"]},
	"PriorityLevelConfiguration": {
		"flowcontrol.apiserver.k8s.io/v1beta1": [26, "flowcontrol.apiserver.k8s.io/v1", "#flowcontrol-resources-v126"],
		"flowcontrol.apiserver.k8s.io/v1beta2": [29, "flowcontrol.apiserver.k8s.io/v1", "#flowcontrol-resources-v129"],
		"flowcontrol.apiserver.k8s.io/v1beta3": [32, "flowcontrol.apiserver.k8s.io/v1", "#flowcontrol-resources-v132"],
	},
	"ReplicaSet": {
		"apps/v1beta1": [16, "apps/v1", "#replicaset-v116"],
		"apps/v1beta2": [16, "apps/v1", "#replicaset-v116"],
		"extensions/v1beta1": [16, "apps/v1", "#replicaset-v116"],
	},
	"ResourceClaim": {
		"resource.k8s.io/v1beta1": [38, "resource.k8s.io/v1", "resource/v1beta1"],
		"resource.k8s.io/v1beta2": [39, "resource.k8s.io/v1", "resource/v1beta2"],
	},
	"ResourceClaimTemplate": {
		"resource.k8s.io/v1beta1": [38, "resource.k8s.io/v1", "resource/v1beta1"],
		"resource.k8s.io/v1beta2": [39, "resource.k8s.io/v1", "resource/v1beta2"],
	},
	"ResourceSlice": {
		"resource.k8s.io/v1beta1": [38, "resource.k8s.io/v1", "resource/v1beta1"],
		"resource.k8s.io/v1beta2": [39, "resource.k8s.io/v1", "resource/v1beta2"],
	},
	"Role": {"rbac.authorization.k8s.io/v1beta1": [22, "rbac.authorization.k8s.io/v1", "#rbac-resources-v122"]},
	"RoleBinding": {"rbac.authorization.k8s.io/v1beta1": [22, "rbac.authorization.k8s.io/v1", "#rbac-resources-v122"]},
	"RuntimeClass": {"node.k8s.io/v1beta1": [25, "node.k8s.io/v1", "#runtimeclass-v125"]},
	"ServiceCIDR": {"networking.k8s.io/v1beta1": [37, "networking.k8s.io/v1", "networking/v1beta1"]},
	"StatefulSet": {
		"apps/v1beta1": [16, "apps/v1", "#statefulset-v116"],
		"apps/v1beta2": [16, "apps/v1", "#statefulset-v116"],
	},
	"StorageClass": {"storage.k8s.io/v1beta1": [22, "storage.k8s.io/v1", "#storage-resources-v122"]},
	"ValidatingAdmissionPolicy": {
		"admissionregistration.k8s.io/v1alpha1": [32, "admissionregistration.k8s.io/v1", "admissionregistration/v1alpha1"],
		"admissionregistration.k8s.io/v1beta1": [34, "admissionregistration.k8s.io/v1", "admissionregistration/v1beta1"],
	},
	"ValidatingAdmissionPolicyBinding": {
		"admissionregistration.k8s.io/v1alpha1": [32, "admissionregistration.k8s.io/v1", "admissionregistration/v1alpha1"],
		"admissionregistration.k8s.io/v1beta1": [34, "admissionregistration.k8s.io/v1", "admissionregistration/v1beta1"],
	},
	"ValidatingWebhookConfiguration": {"admissionregistration.k8s.io/v1beta1": [22, "admissionregistration.k8s.io/v1", "#webhook-resources-v122"]},
	"VolumeAttachment": {
		"storage.k8s.io/v1beta1": [22, "storage.k8s.io/v1", "#storage-resources-v122"],
		"storage.k8s.io/v1alpha1": [24, "storage.k8s.io/v1", "storage/v1alpha1"],
	},
	"VolumeAttributesClass": {
		"storage.k8s.io/v1alpha1": [35, "storage.k8s.io/v1", "storage/v1alpha1"],
		"storage.k8s.io/v1beta1": [37, "storage.k8s.io/v1", "storage/v1beta1"],
	},
}

# METADATA
# description: The kinds with removed versions. They are listed again so that rules are evaluated only for these kinds.
kinds := {
	"APIService",
	"CSIDriver",
	"CSINode",
	"CSIStorageCapacity",
	"CertificateSigningRequest",
	"ClusterRole",
	"ClusterRoleBinding",
	"ClusterTrustBundle",
	"CronJob",
	"CustomResourceDefinition",
	"DaemonSet",
	"Deployment",
	"DeviceClass",
	"EndpointSlice",
	"Event",
	"FlowSchema",
	"HorizontalPodAutoscaler",
	"IPAddress",
	"Ingress",
	"IngressClass",
	"Lease",
	"MutatingAdmissionPolicy",
	"MutatingAdmissionPolicyBinding",
	"MutatingWebhookConfiguration",
	"NetworkPolicy",
	"PodDisruptionBudget",
	"PodSecurityPolicy",
	"PriorityClass",
	"PriorityLevelConfiguration",
	"ReplicaSet",
	"ResourceClaim",
	"ResourceClaimTemplate",
	"ResourceSlice",
	"Role",
	"RoleBinding",
	"RuntimeClass",
	"ServiceCIDR",
	"StatefulSet",
	"StorageClass",
	"ValidatingAdmissionPolicy",
	"ValidatingAdmissionPolicyBinding",
	"ValidatingWebhookConfiguration",
	"VolumeAttachment",
	"VolumeAttributesClass",
}

# METADATA
# description: The newest release of which all removals are known; later ones are announcements.
newest := 36

# METADATA
# description: The page on which a row's source is.
page(source) := sprintf("https://kubernetes.io/docs/reference/using-api/deprecation-guide/%s", [source]) if {
	startswith(source, "#")
}

page(source) := sprintf("https://github.com/kubernetes/api/blob/master/%s/zz_generated.prerelease-lifecycle.go", [source]) if {
	not startswith(source, "#")
}
