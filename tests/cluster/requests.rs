//! The load that kaudit causes on the API server, according to its audit log.

use std::{collections::HashSet, time::Duration};

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kaudit_controlplane::{AuditRecord, ControlPlane, Options, require};
use kube::{Api, api::PostParams};

use crate::{
    basics::BAD_LABEL,
    reports::{NAMES, OPENREPORTS},
    support::{Running, establish, establish_audits, policies, until_violations, wait_for},
};

/// Enough objects for more pages than are read concurrently.
const OBJECTS: usize = 2_600;
/// Maximum number of concurrent requests at the start.
const AT_A_TIME: usize = 10;
/// How long the cluster is quiet.
const QUIET: Duration = Duration::from_secs(20);

/// Returns the maximum number of concurrent requests.
fn at_a_time(records: &[AuditRecord]) -> usize {
    let begin = records.iter().map(|record| (record.received, 1));
    let end = records.iter().map(|record| (record.answered, -1));
    let mut steps: Vec<_> = begin.chain(end).collect();
    steps.sort_unstable();
    let mut open = 0_isize;
    let most = steps.into_iter().map(|(_, step)| {
        open += step;
        open
    });
    most.max().unwrap_or_default().unsigned_abs()
}

fn of_kaudit(mut records: Vec<AuditRecord>) -> Vec<AuditRecord> {
    records.retain(|record| record.user_agent.starts_with("kaudit/"));
    records
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_requests_are_limited_and_a_quiet_cluster_costs_almost_none() {
    if !require() {
        return;
    }
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    establish(&plane, OPENREPORTS, &NAMES[0]).await;
    establish_audits(&plane).await;
    let maps: Api<ConfigMap> = Api::namespaced(plane.admin().unwrap(), "default");
    let create = |number: usize| {
        let maps = &maps;
        async move {
            let labels = if number < 20 { serde_json::json!({"bad": "yes"}) } else { serde_json::json!({}) };
            let map = serde_json::json!({"metadata": {"name": format!("m{number}"), "labels": labels}});
            maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
        }
    };
    stream::iter(0..OBJECTS).map(create).buffer_unordered(8).collect::<()>().await;

    let directory = policies(&[("bad.rego", BAD_LABEL)]);
    let paths = ["--policies", directory.path().to_str().unwrap()];
    let rest = ["--record=events,reports", "--leader-elect", "--events-per-second=1000"];
    let position = plane.audit_position().unwrap();
    let kaudit = Running::start(&plane.kubeconfig(), &[&paths[..], &rest].concat()).await;
    until_violations(&kaudit, "default", 20).await;
    wait_for("everything to be recorded", || async {
        let written = |recorder| kaudit.metric(&format!("kaudit_recorder_writes_total{{recorder=\"{recorder}\"}}"));
        (written("events")? == 20 && written("reports")? > 0).then_some(())
    })
    .await;
    let start = of_kaudit(plane.audit_log_since(position).unwrap());
    // A server that has just started rejects some requests, which are retried.
    let lists = start.iter().filter(|record| record.verb == "list" && record.resource == "configmaps");
    let pages: HashSet<_> = lists.map(|record| &record.request_uri).collect();
    assert_eq!(pages.len(), OBJECTS.div_ceil(500), "{pages:#?}");
    let most = at_a_time(&start);
    assert!((2..=AT_A_TIME).contains(&most), "{most} at a time of {start:#?}");

    let position = plane.audit_position().unwrap();
    // Only waiting can show that there are no requests.
    tokio::time::sleep(QUIET).await;
    let mut quiet = of_kaudit(plane.audit_log_since(position).unwrap());
    quiet.retain(|record| record.verb != "watch");
    assert!(quiet.len() <= 20, "{} in {QUIET:?}: {quiet:#?}", quiet.len());
    println!("{} requests to start, {most} at a time; then {} in {QUIET:?}", start.len(), quiet.len());
    assert_eq!(kaudit.stop().await, Some(0));
    plane.stop().await.unwrap();
}
