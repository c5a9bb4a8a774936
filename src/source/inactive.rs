//! Inactive objects, which remain only as a record: old revisions of a Deployment, finished Jobs and Pods.
//!
//! Nothing of them runs or will run again, and they cannot be fixed: a Deployment that was fixed keeps its old
//! `ReplicaSet`s, ten by default, as they were. Only objects of a cluster are inactive: the status in a manifest is
//! what its author wrote.

use serde::Deserialize;

use crate::model::object::{Controller, Kind};

#[derive(Default, Deserialize)]
#[serde(default)]
struct ReplicaSetSpec {
    replicas: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WorkloadStatus<'a> {
    phase: Option<&'a str>,
    #[serde(borrow)]
    conditions: Vec<StatusCondition<'a>>,
}

#[derive(Deserialize)]
struct StatusCondition<'a> {
    #[serde(rename = "type")]
    name: &'a str,
    status: &'a str,
}

/// Whether an object is inactive, given the JSON of its `spec` and `status`. Fields that cannot be read count as
/// absent.
///
/// A `ReplicaSet` is inactive when its Deployment scaled it to 0; a Job when it is `Complete` or `Failed`, as in
/// `IsJobFinished` of Kubernetes' job controller; a Pod in phase `Succeeded` or `Failed`, which are final.
pub(super) fn is_inactive(kind: &Kind, controller: Option<&Controller>, spec: &[u8], status: &[u8]) -> bool {
    let status = || serde_json::from_slice::<WorkloadStatus<'_>>(status).unwrap_or_default();
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => matches!(status().phase, Some("Succeeded" | "Failed")),
        ("batch", "Job") => {
            let ends = |condition: &StatusCondition<'_>| {
                matches!(condition.name, "Complete" | "Failed") && condition.status == "True"
            };
            status().conditions.iter().any(ends)
        }
        ("apps", "ReplicaSet") => {
            let is_revision = controller.is_some_and(|owner| &*owner.group == "apps" && &*owner.kind == "Deployment");
            let spec = || serde_json::from_slice::<ReplicaSetSpec>(spec).unwrap_or_default();
            is_revision && spec().replicas == Some(0)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_finished_pods_and_jobs_and_old_replica_sets_are_inactive() {
        let owner =
            |kind: &str| Controller { group: "apps".into(), kind: kind.into(), name: "web".into(), uid: "u".into() };
        let (deployment, other) = (owner("Deployment"), owner("Rollout"));
        let no = "{}";
        for (group, plural, kind, controller, spec, status, want) in [
            ("", "pods", "Pod", None, no, r#"{"phase":"Succeeded"}"#, true),
            (
                "",
                "pods",
                "Pod",
                None,
                no,
                r#"{"phase":"Failed","conditions":[{"type":"Ready","status":"False"}]}"#,
                true,
            ),
            ("", "pods", "Pod", None, no, r#"{"phase":"Running"}"#, false),
            ("", "pods", "Pod", None, no, "", false),
            ("", "pods", "Pod", None, no, r#"{"phase":7}"#, false),
            ("batch", "jobs", "Job", None, no, r#"{"conditions":[{"type":"Complete","status":"True"}]}"#, true),
            ("batch", "jobs", "Job", None, no, r#"{"conditions":[{"type":"Failed","status":"True"}]}"#, true),
            ("batch", "jobs", "Job", None, no, r#"{"conditions":[{"type":"Failed","status":"False"}]}"#, false),
            ("batch", "jobs", "Job", None, no, r#"{"conditions":[{"type":"Suspended","status":"True"}]}"#, false),
            ("apps", "replicasets", "ReplicaSet", Some(&deployment), r#"{"replicas":0}"#, no, true),
            ("apps", "replicasets", "ReplicaSet", Some(&deployment), r#"{"replicas":1}"#, no, false),
            ("apps", "replicasets", "ReplicaSet", Some(&deployment), no, no, false),
            ("apps", "replicasets", "ReplicaSet", Some(&other), r#"{"replicas":0}"#, no, false),
            ("apps", "replicasets", "ReplicaSet", None, r#"{"replicas":0}"#, no, false),
            ("example.com", "pods", "Pod", None, no, r#"{"phase":"Failed"}"#, false),
        ] {
            let kind = Kind::sample(group, plural, kind);
            assert_eq!(
                is_inactive(&kind, controller, spec.as_bytes(), status.as_bytes()),
                want,
                "{kind} {spec} {status}"
            );
        }
    }
}
