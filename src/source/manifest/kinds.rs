//! The versions and kinds of Kubernetes' own API groups: any other in these groups is misspelt, and no policy would
//! check it.

use crate::model::{object::Kind, spelling::nearest};

/// The versions and kinds that each group has had in any release of Kubernetes, including those that no server stores.
const GROUPS: [(&str, &[&str], &[&str]); 29] = [
    ("", &["v1"], CORE),
    ("admission.k8s.io", &["v1", "v1beta1"], &["AdmissionReview"]),
    (
        "admissionregistration.k8s.io",
        &["v1", "v1alpha1", "v1beta1"],
        &[
            "InitializerConfiguration",
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
            "MutatingWebhookConfiguration",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "ValidatingWebhookConfiguration",
        ],
    ),
    ("apiextensions.k8s.io", &["v1", "v1beta1"], &["ConversionReview", "CustomResourceDefinition"]),
    ("apiregistration.k8s.io", &["v1", "v1alpha1", "v1beta1"], &["APIService"]),
    (
        "apps",
        &["v1", "v1beta1", "v1beta2"],
        &["ControllerRevision", "DaemonSet", "Deployment", "DeploymentRollback", "ReplicaSet", "Scale", "StatefulSet"],
    ),
    ("auditregistration.k8s.io", &["v1alpha1"], &["AuditSink"]),
    ("authentication.k8s.io", &["v1", "v1alpha1", "v1beta1"], &["SelfSubjectReview", "TokenRequest", "TokenReview"]),
    (
        "authorization.k8s.io",
        &["v1", "v1beta1"],
        &["LocalSubjectAccessReview", "SelfSubjectAccessReview", "SelfSubjectRulesReview", "SubjectAccessReview"],
    ),
    ("autoscaling", &["v1", "v2", "v2alpha1", "v2beta1", "v2beta2"], &["HorizontalPodAutoscaler", "Scale"]),
    ("batch", &["v1", "v1beta1", "v2alpha1"], &["CronJob", "Job", "JobTemplate", "ScheduledJob"]),
    (
        "certificates.k8s.io",
        &["v1", "v1alpha1", "v1beta1"],
        &["CertificateSigningRequest", "ClusterTrustBundle", "PodCertificateRequest"],
    ),
    ("coordination.k8s.io", &["v1", "v1alpha1", "v1alpha2", "v1beta1"], &["Lease", "LeaseCandidate"]),
    ("discovery.k8s.io", &["v1", "v1alpha1", "v1beta1"], &["EndpointSlice"]),
    ("events.k8s.io", &["v1", "v1beta1"], &["Event"]),
    (
        "extensions",
        &["v1beta1"],
        &[
            "DaemonSet",
            "Deployment",
            "DeploymentRollback",
            "HorizontalPodAutoscaler",
            "Ingress",
            "Job",
            "NetworkPolicy",
            "PodSecurityPolicy",
            "ReplicaSet",
            "ReplicationControllerDummy",
            "Scale",
            "ThirdPartyResource",
        ],
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        &["v1", "v1alpha1", "v1beta1", "v1beta2", "v1beta3"],
        &["FlowSchema", "PriorityLevelConfiguration"],
    ),
    ("imagepolicy.k8s.io", &["v1alpha1"], &["ImageReview"]),
    ("internal.apiserver.k8s.io", &["v1alpha1"], &["StorageVersion"]),
    ("lifecycle.k8s.io", &["v1alpha1"], &["Eviction", "EvictionRequest"]),
    (
        "networking.k8s.io",
        &["v1", "v1alpha1", "v1beta1"],
        &["ClusterCIDR", "IPAddress", "Ingress", "IngressClass", "NetworkPolicy", "ServiceCIDR"],
    ),
    ("node.k8s.io", &["v1", "v1alpha1", "v1beta1"], &["RuntimeClass"]),
    ("policy", &["v1", "v1alpha1", "v1beta1"], &["Eviction", "PodDisruptionBudget", "PodSecurityPolicy"]),
    (
        "rbac.authorization.k8s.io",
        &["v1", "v1alpha1", "v1beta1"],
        &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"],
    ),
    (
        "resource.k8s.io",
        &["v1", "v1alpha1", "v1alpha2", "v1alpha3", "v1beta1", "v1beta2"],
        &[
            "DeviceClass",
            "DeviceTaintRule",
            "PodScheduling",
            "PodSchedulingContext",
            "ResourceClaim",
            "ResourceClaimParameters",
            "ResourceClaimTemplate",
            "ResourceClass",
            "ResourceClassParameters",
            "ResourcePoolStatusRequest",
            "ResourceSlice",
        ],
    ),
    (
        "scheduling.k8s.io",
        &["v1", "v1alpha1", "v1alpha2", "v1alpha3", "v1beta1"],
        &["CompositePodGroup", "PodGroup", "PriorityClass", "Workload"],
    ),
    ("settings.k8s.io", &["v1alpha1"], &["PodPreset"]),
    (
        "storage.k8s.io",
        &["v1", "v1alpha1", "v1beta1"],
        &["CSIDriver", "CSINode", "CSIStorageCapacity", "StorageClass", "VolumeAttachment", "VolumeAttributesClass"],
    ),
    ("storagemigration.k8s.io", &["v1", "v1alpha1", "v1beta1"], &["StorageVersionMigration"]),
];

const CORE: &[&str] = &[
    "Binding",
    "ComponentStatus",
    "ConfigMap",
    "Endpoints",
    "Event",
    "LimitRange",
    "List",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "PodStatusResult",
    "PodTemplate",
    "RangeAllocation",
    "ReplicationController",
    "ResourceQuota",
    "Secret",
    "SerializedReference",
    "Service",
    "ServiceAccount",
    "Status",
];

/// Returns why no Kubernetes API server serves a kind or its version, with the nearest name; `None` if one may.
///
/// Only groups without a dot are certain to be Kubernetes' own: those of custom resources have one.
pub(super) fn unknown(kind: &Kind) -> Option<String> {
    let Kind { group, version, kind: name, .. } = kind;
    let Some((_, versions, kinds)) = GROUPS.iter().find(|(known, ..)| known == group) else {
        let known = GROUPS.iter().map(|(known, ..)| *known).filter(|known| !known.is_empty());
        let hint = nearest(group, known).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        return (!group.contains('.')).then(|| format!("Kubernetes has no API group {group:?}{hint}"));
    };
    let is_known = |name: &str| kinds.contains(&name);
    if is_known(name) || name.strip_suffix("List").is_some_and(is_known) {
        return (!versions.contains(&version.as_str())).then(|| {
            format!(
                "Kubernetes has no version {version:?} of {}, only {} (if it is newer than this kaudit: --include {name})",
                shown_group(group),
                versions.join(", ")
            )
        });
    }
    let elsewhere = GROUPS.iter().find(|(.., kinds)| kinds.contains(&name.as_str()));
    let hint = match elsewhere {
        Some((group, ..)) => format!("; {name} is in {}", shown_group(group)),
        None => near(name, kinds).map(|near| format!("; did you mean {near}?")).unwrap_or_default(),
    };
    Some(format!(
        "Kubernetes has no kind {name:?} in {}{hint} (if it is newer than this kaudit: --include {name})",
        shown_group(group)
    ))
}

fn near(name: &str, kinds: &[&'static str]) -> Option<&'static str> {
    let all = || GROUPS.iter().flat_map(|(.., kinds)| kinds.iter().copied());
    nearest(name, kinds.iter().copied()).or_else(|| nearest(name, all()))
}

fn shown_group(group: &str) -> String {
    if group.is_empty() { "the core group".to_owned() } else { format!("group {group}") }
}

#[cfg(test)]
mod tests {
    use super::{super::kind_of, *};
    use crate::model::namespaced_kinds::NAMESPACED_KINDS;

    #[test]
    fn namespaced_kinds_are_kinds_of_kubernetes() {
        for (group, names) in NAMESPACED_KINDS {
            let known = GROUPS.iter().find(|(own, ..)| *own == group).map(|(.., kinds)| *kinds).unwrap_or_default();
            let unknown: Vec<_> = names.iter().filter(|name| !known.contains(name)).collect();
            assert!(unknown.is_empty(), "{group}: {unknown:?}");
        }
    }

    #[test]
    fn misspelt_kinds_are_reported_with_the_nearest() {
        let unknown = |api_version: &str, kind: &str| unknown(&kind_of(api_version, kind));
        for (api_version, kind, want) in [
            ("apps/v1", "Deploymnet", "no kind \"Deploymnet\" in group apps; did you mean Deployment?"),
            ("apps/v1", "deployment", "did you mean Deployment?"),
            ("v1", "Pods", "no kind \"Pods\" in the core group; did you mean Pod?"),
            ("v1", "Deployment", "; Deployment is in group apps"),
            ("batch/v1", "Cronjob", "did you mean CronJob?"),
            ("networking.k8s.io/v1", "NetworkPolice", "did you mean NetworkPolicy?"),
            ("v1", "Zqx", "no kind \"Zqx\" in the core group (if"),
            ("apps/v2", "Deployment", "no version \"v2\" of group apps, only v1, v1beta1, v1beta2 (if"),
            ("v2", "Pod", "no version \"v2\" of the core group, only v1 (if"),
            ("batch/V1", "JobList", "no version \"V1\" of group batch"),
            ("networking.k8s.io/", "Ingress", "no version \"\" of group networking.k8s.io"),
            ("app/v1", "Deployment", "no API group \"app\"; did you mean apps?"),
        ] {
            let why = unknown(api_version, kind).unwrap_or_default();
            assert!(why.contains(want), "{api_version} {kind}: {why}");
        }
        for (api_version, kind) in [
            ("v1", "Pod"),
            ("apps/v1beta1", "Deployment"),
            ("extensions/v1beta1", "Ingress"),
            ("policy/v1beta1", "PodSecurityPolicy"),
            ("apps/v1", "DeploymentList"),
            ("example.com/v1", "Deploymnet"),
            ("gateway.networking.k8s.io/v1", "HTTPRoute"),
        ] {
            assert_eq!(unknown(api_version, kind), None, "{api_version} {kind}");
        }
    }
}
