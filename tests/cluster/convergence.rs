//! Convergence: on a quiet cluster, the live verdicts equal those of a fresh audit, and the Events have recorded each
//! new and each resolved violation once.

use std::{
    cell::RefCell,
    time::{Duration, Instant},
};

use futures::{StreamExt, stream};
use kaudit_controlplane::{ControlPlane, Options};
use kaudit_test_support::settings::{seed, setting};
use serde_json::json;

use crate::{
    support::{Running, policies, wait_for},
    truth::{EventOrder, Truth, policy_arguments, violation_events},
    writer::{POLICY, RandomWriter},
};

const NAMESPACES: usize = 50;
const OBJECTS: usize = 2_000;
const WRITES_AT_A_TIME: usize = 8;
/// Operations per second; half of the server's capacity here.
const WRITES_PER_SECOND: u64 = 100;

const CRDS: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.shop.example.com}
spec:
  group: shop.example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.shop.example.com}
spec:
  group: shop.example.com
  scope: Cluster
  names: {plural: gadgets, singular: gadget, kind: Gadget}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn live_verdicts_converge_to_a_fresh_audit() {
    if !kaudit_controlplane::require() {
        return;
    }
    let (seed, seconds) = (seed(), setting("KAUDIT_TEST_SECONDS").unwrap_or(60));
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let client = plane.admin().unwrap();
    plane.apply(CRDS).await.unwrap();
    plane.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"]).await.unwrap();
    let namespaces: Vec<String> = (0..NAMESPACES).map(|n| format!("n{n}")).collect();
    let yaml = namespaces.iter().map(|name| format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n"));
    plane.apply(&yaml.collect::<Vec<_>>().join("---\n")).await.unwrap();
    let mut writer = RandomWriter::new(client.clone(), &namespaces, OBJECTS);
    let custom = |kind| ("shop.example.com/v1", kind, json!({"spec": {}}));
    writer.kinds.extend([custom("Widget"), custom("Gadget")]);
    writer.create_all().await;

    let directory = policies(&[("labels.rego", POLICY)]);
    let mut truth = Truth {
        kubeconfig: plane.kubeconfig(),
        client: client.clone(),
        arguments: policy_arguments(directory.path()),
        namespaces: Vec::new(),
        event_order: EventOrder::ByTurns,
        reports: false,
    };
    let paths = truth.arguments.clone();
    let arguments = [&paths[0], &paths[1], "--events-per-second=1000", "--record=events"];
    let kaudit = Running::start(&plane.kubeconfig(), &arguments).await;
    truth.gate(&kaudit).await;
    let expected = OBJECTS.div_ceil(3);
    wait_for("every violation at the gate", || async {
        (violation_events(&client, &[]).await.len() >= expected).then_some(())
    })
    .await;
    let first = violation_events(&client, &[]).await;
    assert_eq!((first.len(), first.values().map(Vec::len).sum::<usize>()), (expected, expected), "each exactly once");

    let random = RefCell::new(fastrand::Rng::with_seed(seed));
    let write = async |seconds| {
        let end = Instant::now() + Duration::from_secs(seconds);
        let mut beat = tokio::time::interval(Duration::from_millis(1_000 / WRITES_PER_SECOND));
        let steps = stream::poll_fn(|context| {
            std::task::ready!(beat.poll_tick(context));
            std::task::Poll::Ready((Instant::now() < end).then(|| random.borrow_mut().fork()))
        });
        let step = |random| async { writer.step(random).await.unwrap() };
        steps.map(step).buffer_unordered(WRITES_AT_A_TIME).count().await
    };
    let written = write(seconds).await;
    let took = truth.converged(&kaudit, Instant::now()).await;
    println!("{written} random writes, converged {took:?} after the last");
    let metrics = kaudit.get("/metrics").unwrap();
    let held_back: Vec<_> = metrics.lines().filter(|line| line.starts_with("kaudit_recorder_drops_total{")).collect();
    assert!(held_back.is_empty(), "{held_back:?}");

    // The same while kaudit is stopped gracefully and killed.
    truth.event_order = EventOrder::ButFor(1);
    let restarts = async {
        assert_eq!(kaudit.stop().await, Some(0));
        let kaudit = Running::start(&plane.kubeconfig(), &arguments).await;
        truth.gate(&kaudit).await;
        kaudit.kill();
        let kaudit = Running::start(&plane.kubeconfig(), &arguments).await;
        truth.gate(&kaudit).await;
        kaudit
    };
    let (written, kaudit) = tokio::join!(write(seconds / 4), restarts);
    let took = truth.converged(&kaudit, Instant::now()).await;
    println!("{written} random writes and two restarts, converged {took:?} after the last");
    assert_eq!(kaudit.stop().await, Some(0));
    plane.stop().await.unwrap();
}
