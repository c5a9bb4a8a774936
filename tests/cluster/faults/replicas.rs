//! Loss of the leader in every way: another replica takes over in time, and the lost one no longer writes.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use kaudit_controlplane::{AuditRecord, ControlPlane, User, require, shared};

use super::Scene;
use crate::{
    support::{Running, wait_for},
    wire::Wire,
};

/// The duration of the Lease, plus a margin for a busy machine; the simulation shows that it takes at most 2 s.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(25);
/// Well before an unreleased Lease would expire.
const RELEASED_WITHIN: Duration = Duration::from_secs(10);

/// One of several replicas, with its own user, so that the audit log identifies the writer.
struct Replica {
    kaudit: Running,
    user: User,
}

impl Replica {
    /// Starts a replica with its own connection, and waits until it is ready.
    async fn start(scene: &Scene, plane: &ControlPlane, name: &str) -> (Self, Wire) {
        let namespace = &scene.namespaces[0];
        let user = plane.service_account(namespace, name).await.unwrap();
        let binding = format!(
            "{{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {{name: {namespace}-{name}}}, \
             roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}}, \
             subjects: [{{kind: ServiceAccount, name: {name}, namespace: {namespace}}}]}}"
        );
        plane.apply(&binding).await.unwrap();
        let wire = Wire::to(user.kubeconfig_path()).await;
        let directory = scene.files.path().join(name);
        std::fs::create_dir(&directory).unwrap();
        let kubeconfig = wire.kubeconfig(user.kubeconfig_path(), &directory);
        let arguments = [&scene.arguments()[..], &["--leader-elect", "--lease-name", namespace]].concat();
        let kaudit = Running::start(&kubeconfig, &arguments).await;
        // Followers are ready, too.
        kaudit.ready().await;
        (Self { kaudit, user }, wire)
    }

    fn leads(&self) -> bool {
        self.kaudit.metric("kaudit_leader") == Some(1)
    }

    fn wrote(&self, record: &AuditRecord) -> bool {
        record.user == self.user.name() && is_record(record) && (200..300).contains(&record.code)
    }
}

/// Whether a request records results.
fn is_record(record: &AuditRecord) -> bool {
    let recorded = ["events.k8s.io", "kaudit.dev", "openreports.io", "wgpolicyk8s.io"];
    recorded.contains(&record.api_group.as_str()) && ["create", "update", "patch", "delete"].contains(&&*record.verb)
}

/// How the leader is lost, and for some, later recovered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    Killed,
    /// Frozen, and later resumed.
    Frozen,
    /// Disconnected, and later reconnected.
    CutOff,
    Stopped,
}

async fn is_lost(loss: Loss) {
    if !require() {
        return;
    }
    let plane = shared().await;
    let mut scene = Scene::new(plane, "replicas").await;
    // Earlier records may not have been read yet.
    let (first, wire) = Replica::start(&scene, plane, "first").await;
    wait_for("the first to lead", || async { first.leads().then_some(()) }).await;
    let (second, _wire) = Replica::start(&scene, plane, "second").await;
    let (third, _wire) = Replica::start(&scene, plane, "third").await;
    assert!(!second.leads() && !third.leads());
    let position = plane.audit_position().unwrap();
    let writing = scene.write();
    wait_for("some writes", || async { (writing.written() >= 50).then_some(()) }).await;
    for follower in [&second, &third] {
        // Followers evaluate, and do not record.
        assert!(follower.kaudit.metric("kaudit_evaluations_total").unwrap() > 50);
    }

    match loss {
        Loss::Killed => first.kaudit.signal("KILL"),
        Loss::Frozen => first.kaudit.signal("STOP"),
        Loss::CutOff => wire.delay(Duration::from_hours(1)),
        Loss::Stopped => first.kaudit.signal("TERM"),
    }
    let begin = Cell::new(Instant::now());
    let taken_over = wait_for("a take-over", || async {
        // A stopped leader writes pending records before it releases the Lease.
        if loss == Loss::Stopped && first.kaudit.is_alive() {
            begin.set(Instant::now());
        }
        let leader = [&second, &third].into_iter().find(|replica| replica.leads())?;
        // Checked afterwards, so the result is certain.
        let alone = loss != Loss::CutOff || !first.leads();
        assert!(alone, "two lead");
        Some((leader, begin.get().elapsed()))
    });
    let (leader, took) = taken_over.await;
    let written_after = wait_for("the first record of the new leader", || async {
        let log = plane.audit_log_since(position).unwrap();
        log.iter().any(|record| leader.wrote(record)).then(|| begin.get().elapsed())
    })
    .await;
    println!("{loss:?}: another leads {took:.1?} later, and records {written_after:.1?} later");
    let limit = if loss == Loss::Stopped { RELEASED_WITHIN } else { TAKEN_OVER_WITHIN };
    assert!(took < limit, "{took:?}");

    if loss == Loss::Frozen {
        first.kaudit.signal("CONT");
        wait_for("the first to know", || async { (!first.leads()).then_some(()) }).await;
    }
    if loss == Loss::CutOff {
        wire.delay(Duration::ZERO);
        wire.cut();
    }
    if matches!(loss, Loss::Frozen | Loss::CutOff) {
        let lease_lost = || async { first.kaudit.log().contains("The Lease is lost").then_some(()) };
        wait_for("the first to say so", lease_lost).await;
        let seen = first.kaudit.metric("kaudit_evaluations_total");
        wait_for("the first to judge on", || async {
            (first.kaudit.metric("kaudit_evaluations_total") > seen).then_some(())
        })
        .await;
    }
    writing.stop().await;
    scene.truth.converged(&leader.kaudit, Instant::now()).await;
    let log = plane.audit_log_since(position).unwrap();
    let one = |replica: &Replica| log.iter().position(|record| replica.wrote(record));
    let begins = one(leader).unwrap();
    assert!(log[..begins].iter().any(|record| first.wrote(record)), "the test is to have the first one record");
    let late: Vec<_> = log[begins..].iter().filter(|record| first.wrote(record)).collect();
    assert!(late.is_empty(), "written although another leads: {late:#?}");
    let follower = if leader.user.name() == second.user.name() { &third } else { &second };
    assert!(one(follower).is_none(), "a follower wrote");
    // The lost replica becomes a follower with the same state.
    if matches!(loss, Loss::Frozen | Loss::CutOff) {
        scene.truth.converged(&first.kaudit, Instant::now()).await;
        assert!(leader.leads() && !first.leads());
    }
    scene.truth.converged(&follower.kaudit, Instant::now()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_leader_is_replaced() {
    is_lost(Loss::Killed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_leader_is_replaced_and_writes_nothing_when_resumed() {
    is_lost(Loss::Frozen).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disconnected_leader_is_replaced() {
    is_lost(Loss::CutOff).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_leader_hands_over_immediately() {
    is_lost(Loss::Stopped).await;
}
