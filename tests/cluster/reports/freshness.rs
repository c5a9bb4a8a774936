//! The delay of changes in reports, and the write rate of a report.

use std::time::{Duration, Instant};

use kaudit_controlplane::{ControlPlane, require};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, ListParams},
    core::GroupVersionKind,
};

use super::{NAMES, mark, plane, policy, reports_in, until_messages, writes_since};
use crate::support::{Running, marked, policies, wait_for};

/// Minimum time between two writes of a report.
const EVERY: Duration = Duration::from_secs(5);
/// Median delay in a report that was not written recently: much less than after a recent write. The machine may be
/// busy.
const SOON: Duration = Duration::from_secs(2);
const SHARDS: usize = 15;

/// Waits until a report of a namespace contains a text; polls frequently.
async fn until_reported(plane: &ControlPlane, namespace: &str, text: &str) {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("openreports.io", "v1alpha1", "Report"));
    let reports: Api<DynamicObject> = Api::namespaced_with(plane.admin().unwrap(), namespace, &kind);
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let all = reports.list(&ListParams::default()).await.unwrap();
        if all.items.iter().any(|report| report.data.to_string().contains(text)) {
            return;
        }
        assert!(Instant::now() < deadline, "{text} is not in {all:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn single_changes_are_reported_immediately_and_many_together() {
    if !require() {
        return;
    }
    let plane = plane().await;
    let home = plane.temp_namespace("fresh").await.unwrap();
    let directory = policies(&[("marked.rego", &policy(&home))]);
    let path = directory.path().to_str().unwrap();
    let kaudit = Running::start(&plane.kubeconfig(), &["--policies", path, "--record=reports"]).await;
    kaudit.ready().await;
    // Wait until it records.
    mark(&plane, &home, "first", "yes").await;
    until_reported(&plane, &home, "marked yes").await;
    plane.kubectl(&["-n", &home, "delete", "configmap", "first"]).await.unwrap();
    let gone = || async { reports_in(&plane, NAMES[0][0], &home).await.is_empty().then_some(()) };
    wait_for("an empty namespace", gone).await;

    let mut took = Vec::new();
    for _ in 0..SHARDS {
        let namespace = plane.temp_namespace("fresh").await.unwrap();
        let object = marked("v1", "ConfigMap", &namespace, "one", &home);
        plane.apply(&object).await.unwrap();
        let begin = Instant::now();
        until_reported(&plane, &namespace, "marked yes").await;
        took.push(begin.elapsed());
    }
    took.sort();
    println!("from a change to its report: median {:?}, worst {:?}", took[SHARDS / 2], took[SHARDS - 1]);
    assert!(took[SHARDS / 2] < SOON, "{took:?}");

    // Continuous changes cost a write every few seconds.
    let position = plane.audit_position().unwrap();
    let (begin, mut number) = (Instant::now(), 0);
    while begin.elapsed() < EVERY * 2 {
        number += 1;
        mark(&plane, &home, "busy", &format!("number-{number}")).await;
    }
    let last = format!("busy marked number-{number}");
    until_messages(&plane, &home, &[&last]).await;
    let (writes, lasted) = (writes_since(&plane, position).len(), begin.elapsed());
    println!("{number} changes within {lasted:?} took {writes} writes");
    let most = lasted.as_secs() / EVERY.as_secs() + 1;
    assert!(number > 10 && writes as u64 <= most, "{writes} writes for {number} changes within {lasted:?}");
    assert_eq!(kaudit.stop().await, Some(0));
}
