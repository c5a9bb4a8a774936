//! Shards together evaluate what one process evaluates, each its own part, whatever their number.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use kaudit_controlplane::{ControlPlane, require, shared};
use kaudit_test_support::settings::seed;
use serde_json::{Value, json};

use crate::{
    support::{Ended, Running, denies_marked, establish_audits, policies, run, wait_for},
    truth::{EventOrder, Truth, check_events, open_violations, policy_arguments, violation_events},
    writer::{POLICY, RandomWriter},
};

const NAMESPACES: usize = 12;

/// Returns a policy that denies objects in a Namespace with the label `mark`.
fn in_marked_namespace(mark: &str) -> String {
    format!(
        r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {{name: inmarked}}
spec:
  crd: {{spec: {{names: {{kind: InMarked}}}}}}
  targets:
    - target: admission.k8s.gatekeeper.sh
      rego: |
        package inmarked
        violation[{{"msg": msg}}] {{ msg := sprintf("%v is in a marked namespace", [input.review.object.metadata.name]) }}
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: InMarked
metadata: {{name: configmaps}}
spec:
  match:
    kinds: [{{apiGroups: [""], kinds: [ConfigMap]}}]
    namespaceSelector: {{matchLabels: {{{mark}: "yes"}}}}
"#
    )
}

/// Returns the results as texts.
fn results(ended: &Ended) -> BTreeSet<String> {
    assert!(matches!(ended.code, Some(0 | 1)), "{ended:?}");
    let result = ended.json();
    result["results"].as_array().unwrap().iter().map(Value::to_string).collect()
}

#[tokio::test]
async fn shards_together_equal_one_process_without_duplicates() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let mark = plane.temp_namespace("mark").await.unwrap();
    let mut objects = vec![
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1, "metadata": {"name": mark, "labels": {&mark: "yes"}}}),
    ];
    let mut namespaces = Vec::new();
    for number in 0..NAMESPACES {
        let namespace = plane.temp_namespace("shards").await.unwrap();
        for (kind, name) in [("ConfigMap", "one"), ("ServiceAccount", "two")] {
            let metadata = json!({"name": name, "namespace": namespace, "labels": {&mark: "yes"}});
            objects.push(json!({"apiVersion": "v1", "kind": kind, "metadata": metadata}));
        }
        if number % 2 == 0 {
            plane.kubectl(&["label", "namespace", &namespace, &format!("{mark}=yes")]).await.unwrap();
        }
        namespaces.push(namespace);
    }
    let objects: Vec<_> = objects.iter().map(ToString::to_string).collect();
    plane.apply(&objects.join("\n---\n")).await.unwrap();
    let files = [("marked.rego", &*denies_marked(&mark)), ("namespaces.yaml", &*in_marked_namespace(&mark))];
    let directory = policies(&files);
    let arguments = ["check", "--once", "-o", "json", "--policies", directory.path().to_str().unwrap()];
    let all = results(&run(&plane.kubeconfig(), &arguments).await);
    // Both objects of each namespace, the ConfigMaps of marked namespaces once more, the marked namespaces, and the
    // cluster-scoped object.
    let marked = NAMESPACES.div_ceil(2);
    assert_eq!(all.len(), 2 * NAMESPACES + marked + marked + 1, "{all:#?}");

    for of in [2, 3] {
        let mut together = BTreeSet::new();
        let mut busy = 0;
        for index in 0..of {
            let ended =
                run(&plane.kubeconfig(), &[&arguments[..], &["--shard", &format!("{index}/{of}")]].concat()).await;
            let own = results(&ended);
            busy += usize::from(!own.is_empty());
            let places: BTreeSet<_> = own
                .iter()
                .filter_map(|text| {
                    let entry: Value = serde_json::from_str(text).unwrap();
                    let namespace = entry["resource"]["namespace"].as_str().map(str::to_owned);
                    assert!(index == 0 || namespace.is_some(), "{entry}");
                    namespace
                })
                .collect();
            let twice: Vec<_> = own.intersection(&together).collect();
            assert!(twice.is_empty(), "{twice:?}");
            println!("shard {index}/{of}: {} results in {} namespaces", own.len(), places.len());
            together.extend(own);
        }
        assert_eq!(together, all);
        assert!(busy > 1, "the test is to spread {namespaces:?}");
    }
}

/// The expected order of Events when other shards take over.
const EVENT_ORDER: EventOrder = EventOrder::ByTurns;

/// Starts all shards, and waits until they are ready.
async fn start_all(plane: &ControlPlane, of: usize, arguments: &[&str]) -> Vec<Running> {
    let mut shards = Vec::new();
    for index in 0..of {
        let shard = format!("--shard={index}/{of}");
        let arguments = [arguments, &["--leader-elect", &shard]].concat();
        shards.push(Running::start(&plane.kubeconfig(), &arguments).await);
    }
    for shard in &shards {
        shard.ready().await;
    }
    shards
}

fn leads(shard: &Running) -> bool {
    shard.metric("kaudit_leader") == Some(1)
}

async fn until_all_lead(shards: &[Running]) {
    wait_for("all shards to record", || async { shards.iter().all(leads).then_some(()) }).await;
}

/// Waits until the shards together have the results of a fresh audit, and the Events match them.
async fn until_right(shards: &[Running], truth: &Truth) {
    let result = |result: &Value| -> Vec<String> {
        result["results"].as_array().unwrap().iter().map(Value::to_string).collect()
    };
    wait_for("the shards to be right", || async {
        let fresh = truth.fresh().await;
        let mut live: Vec<String> = shards.iter().flat_map(|shard| result(&shard.status())).collect();
        let mut all = result(&fresh);
        // Compared as lists, to find duplicates.
        live.sort();
        all.sort();
        let events = violation_events(&truth.client, &truth.namespaces).await;
        let open = open_violations(&fresh, &truth.namespaces);
        let all_have_events = open.keys().all(|about| events.contains_key(about));
        let truly = EVENT_ORDER == EventOrder::Lossy || check_events(&events, &open, EVENT_ORDER).is_ok();
        (live == all && all_have_events && truly).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changing_the_number_of_shards_during_writes_converges() {
    if !require() {
        return;
    }
    let plane = shared().await;
    establish_audits(plane).await;
    let mut namespaces = Vec::new();
    for _ in 0..8 {
        namespaces.push(plane.temp_namespace("reshard").await.unwrap());
    }
    let client = plane.admin().unwrap();
    let writer = RandomWriter::new(client.clone(), &namespaces, 300);
    writer.create_all().await;
    let directory = policies(&[("labels.rego", POLICY)]);
    let mut scope = policy_arguments(directory.path());
    scope.extend(namespaces.iter().flat_map(|namespace| ["--namespace".to_owned(), namespace.clone()]));
    let (name, event_order) = (namespaces[0].clone(), EVENT_ORDER);
    let truth = Truth {
        kubeconfig: plane.kubeconfig(),
        client,
        arguments: scope.clone(),
        namespaces,
        event_order,
        reports: false,
    };
    let record = ["--record=events,status", "--events-per-second=1000", "--audit-name", &name];
    let arguments: Vec<&str> = scope.iter().map(String::as_str).chain(record).collect();

    let mut old = start_all(plane, 2, &arguments).await;
    until_all_lead(&old).await;
    until_right(&old, &truth).await;
    let writing = writer.go_on(25, fastrand::Rng::with_seed(seed()));
    let new = start_all(plane, 3, &arguments).await;
    assert!(!new.iter().any(leads), "two numbers of shards record");
    assert!(old.iter().all(leads));
    assert_eq!(old.remove(1).stop().await, Some(0));
    // Longer than a takeover takes after a release.
    let until = Instant::now() + Duration::from_secs(4);
    while Instant::now() < until {
        assert!(!new.iter().any(leads), "two numbers of shards record");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(old.remove(0).stop().await, Some(0));
    let given_back = Instant::now();
    until_all_lead(&new).await;
    println!("all three record {:.1?} after the last of two has ended", given_back.elapsed());
    assert!(given_back.elapsed() < Duration::from_secs(5));
    writing.stop().await;
    until_right(&new, &truth).await;

    // Fewer shards again, after all were killed.
    for shard in &new {
        shard.signal("KILL");
    }
    let killed = Instant::now();
    drop(new);
    let one = Running::start(&plane.kubeconfig(), &[&arguments[..], &["--leader-elect"]].concat()).await;
    until_all_lead(std::slice::from_ref(&one)).await;
    println!("one records {:.1?} after three were killed", killed.elapsed());
    until_right(std::slice::from_ref(&one), &truth).await;
    let audits = plane.kubectl(&["get", "audits", "-o", "jsonpath={.items[*].metadata.name}"]).await.unwrap();
    for own in [name.clone(), format!("{name}-0"), format!("{name}-1"), format!("{name}-2")] {
        assert!(audits.split(' ').any(|audit| audit == own), "{own} is not among {audits}");
    }
    assert_eq!(one.stop().await, Some(0));
}
