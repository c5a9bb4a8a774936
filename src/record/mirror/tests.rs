use std::collections::{BTreeMap, HashSet};

use http::{Request, Response};
use jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{advance, sleep},
};

use super::*;
use crate::{
    audit::{
        command::{Command, ResultQuery, Snapshot},
        overview::Progress,
        result::{AuditResult, Ended, Entry},
    },
    fleet::{
        bucket::{BucketServer as _, BucketWrite},
        clusters::Cluster,
        memory::MemoryServer,
        view::ClusterStatus,
    },
    judge::set::PolicySet,
    model::{coverage::Coverage, object::ObjectRef, shard::Shard, verdict::Finding},
};

/// A pipeline whose result tests set.
#[derive(Clone)]
struct FakePipeline(Arc<std::sync::Mutex<(u64, AuditResult)>>, watch::Sender<()>);

impl FakePipeline {
    fn set(&self, change: impl FnOnce(&mut AuditResult)) {
        let mut state = self.0.lock().unwrap();
        state.0 += 1;
        change(&mut state.1);
        drop(state);
        self.1.send_replace(());
    }

    fn result(&self) -> AuditResult {
        self.0.lock().unwrap().1.clone()
    }
}

fn entry(namespace: Option<&str>, name: &str, message: &str) -> Entry {
    let resource = ObjectRef {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        namespace: namespace.map(Arc::from),
        name: name.into(),
        ..ObjectRef::default()
    };
    let entry = Entry::new(&Finding::sample(message), &Arc::new(resource), None, None);
    Entry { since: Some(Timestamp::UNIX_EPOCH), ..entry }
}

/// Starts a mirror with a pipeline.
fn start(
    server: &MemoryServer,
    uid: &'static str,
    instance: &str,
) -> (FakePipeline, watch::Receiver<Health>, JoinHandle<()>) {
    let (commands, mut received) = mpsc::channel(1);
    let pipeline = FakePipeline(Arc::new(std::sync::Mutex::new((1, AuditResult::sample(3)))), watch::Sender::default());
    let answering = pipeline.clone();
    tokio::spawn(async move {
        while let Some(command) = received.recv().await {
            let Command::Result(ResultQuery { known, answer }) = command else { panic!("not a query") };
            let (revision, result) = answering.0.lock().unwrap().clone();
            let newer = (known != Some(revision)).then_some(Snapshot { revision, changed: None, result });
            drop(answer.send(newer));
        }
    });
    let kube_system = tower::service_fn(move |_: Request<Body>| async move {
        let namespace = serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system", "uid": uid}});
        Ok::<_, tower::BoxError>(Response::new(Body::from(namespace.to_string().into_bytes())))
    });
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("p.rego"), "package p\ndeny contains \"m\" if input.x\n").unwrap();
    let policies = PolicySet::load(&[folder.path().to_owned()]).unwrap();
    let (overview_sender, overview) = watch::channel(Some(Arc::new(Overview::sample(policies))));
    let (progress_sender, progress) = watch::channel(Progress { open: true, ..Progress::default() });
    let settings = MirrorSettings {
        servers: Arc::new(server.clone()),
        cluster: "blue".into(),
        labels: BTreeMap::from([("env".to_owned(), "prod".to_owned())]),
        shard: Shard::WHOLE,
        instance: instance.to_owned(),
        pipeline: commands,
        progress,
        delta_recorded: pipeline.1.subscribe(),
        metrics: Arc::default(),
    };
    let (health_sender, health) = watch::channel(Health::default());
    let client = Client::new(kube_system, "default");
    let running = tokio::spawn(async move {
        let _senders = (overview_sender, progress_sender);
        run(settings, client, overview, health_sender).await;
    });
    (pipeline, health, running)
}

/// Returns a cluster as a view reads it from a bucket.
fn read(server: &MemoryServer) -> Cluster {
    Cluster::read(&"blue".into(), &server.bucket("blue")).unwrap()
}

/// Whether a key has a value of this kind.
fn is_item(key: &str, item: &str) -> bool {
    key.rsplit_once('.').is_some_and(|(_, last)| last == item)
}

/// Waits until a view reads the result of a pipeline from a bucket.
async fn until_mirrored(server: &MemoryServer, pipeline: &FakePipeline) {
    for _ in 0..3_000 {
        let mut wanted = pipeline.result();
        wanted.sort();
        if read(server).result(Timestamp::now()).unwrap().is_some_and(|result| result.results == wanted.results) {
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!("the bucket is not that of the pipeline: {:?}", server.bucket("blue").keys());
}

#[tokio::test(start_paused = true)]
async fn a_view_reads_what_a_pipeline_has() {
    let server = MemoryServer::default();
    let (pipeline, _health, _running) = start(&server, "u", "kaudit/kaudit");
    pipeline.set(|result| {
        let excused = Entry { result: crate::model::verdict::Outcome::Skip, ..entry(None, "node", "excused") };
        let owner = Some(Arc::new(ObjectRef { kind: "Deployment".to_owned(), ..ObjectRef::default() }));
        result.results = vec![entry(Some("shop"), "a", "m"), Entry { owner, ..entry(Some("shop"), "b", "m") }, excused];
        result.namespaces = BTreeMap::from([(None, 1), (Some("shop".into()), 2)]);
        result.teams = BTreeMap::from([("shop".into(), "tills".into())]);
        result.coverage = vec![Coverage::unread("g".into(), "v1".into(), "why".into())];
    });
    until_mirrored(&server, &pipeline).await;
    let (cluster, wanted) = (read(&server), pipeline.result());
    let result = cluster.result(Timestamp::now()).unwrap().unwrap();
    assert_eq!((result.summary, &result.coverage), (wanted.summary, &wanted.coverage));
    assert_eq!((&result.namespaces, &result.teams), (&wanted.namespaces, &wanted.teams));
    assert!(result.complete && cluster.status(Timestamp::now()) == ClusterStatus::Live);
    assert_eq!(cluster.labels().unwrap()["env"], "prod");
    // Resolved violations are kept with their times.
    let at = Timestamp::now();
    pipeline.set(|result| result.ended = vec![Ended { at, entry: result.results.remove(0) }]);
    until_mirrored(&server, &pipeline).await;
    let result = read(&server).result(Timestamp::now()).unwrap().unwrap();
    assert_eq!(result.ended, pipeline.result().ended);
    // An old heartbeat makes it old.
    let later = Timestamp::now() + SignedDuration::from_mins(4);
    assert!(matches!(read(&server).status(later), ClusterStatus::Old(Some(_))));
    assert!(!read(&server).result(later).unwrap().unwrap().complete);
}

#[tokio::test(start_paused = true)]
async fn only_differences_are_written_and_a_quiet_cluster_writes_heartbeats_only() {
    let server = MemoryServer::default();
    let (pipeline, _health, running) = start(&server, "u", "kaudit/kaudit");
    let many: Vec<Entry> = (0..1_000).map(|number| entry(Some("shop"), &format!("pod-{number}"), "m")).collect();
    pipeline.set(|result| result.results = many.clone());
    until_mirrored(&server, &pipeline).await;
    let parts = server.bucket("blue").keys().filter(|key| key.contains(".results.")).count();
    assert_eq!(parts, 16, "1,000 results in parts of about 96");
    server.take_written();
    pipeline.set(|result| drop(result.results.remove(500)));
    until_mirrored(&server, &pipeline).await;
    let written = server.take_written();
    assert_eq!(written.iter().filter(|key| key.contains(".results.")).count(), 1, "{written:?}");
    assert!(!written.iter().any(|key| is_item(key, "policies") || is_item(key, "state")), "{written:?}");
    // Counts that change with every object are written once a minute at most.
    for objects in 0..100 {
        pipeline.set(|result| result.summary.objects = objects);
        sleep(Duration::from_secs(3)).await;
    }
    let written = server.take_written();
    assert!(written.iter().filter(|key| is_item(key, "state")).count() <= 6, "{written:?}");
    advance(Duration::from_mins(2)).await;
    sleep(Duration::from_mins(1)).await;
    server.take_written();
    sleep(Duration::from_mins(10)).await;
    let written = server.take_written();
    assert!((9..=11).contains(&written.len()), "{written:?}");
    assert_eq!(written.iter().collect::<HashSet<_>>().len(), 1, "{written:?}");
    // A restart writes the heartbeat, and the state with the new start.
    running.abort();
    let (again, _health, _running) = start(&server, "u", "kaudit/kaudit");
    again.set(|result| *result = pipeline.result());
    sleep(Duration::from_secs(30)).await;
    let written = server.take_written();
    assert!(written.iter().all(|key| is_item(key, "heartbeat") || is_item(key, "state")), "{written:?}");
}

#[tokio::test(start_paused = true)]
async fn failures_lose_nothing() {
    let server = MemoryServer::with_latency(Duration::from_millis(1));
    let (pipeline, health, _running) = start(&server, "u", "kaudit/kaudit");
    for round in 0..40_usize {
        let number = (round * 97) % 700;
        pipeline.set(|result| {
            result.results =
                (0..number).map(|pod| entry(Some("shop"), &format!("pod-{pod}"), &round.to_string())).collect();
        });
        match round % 4 {
            0 => server.stop_after(1 + round / 4),
            1 => server.set_down(true),
            2 => server.lose("blue"),
            _ => {}
        }
        sleep(Duration::from_secs(2)).await;
        server.set_down(false);
    }
    until_mirrored(&server, &pipeline).await;
    sleep(Duration::from_secs(90)).await;
    assert_eq!(health.borrow().trouble, "");
}

#[tokio::test(start_paused = true)]
async fn a_late_write_of_a_former_leader_does_not_stay() {
    for is_down_at_first in [false, true] {
        let server = MemoryServer::default();
        let (former, _health, running) = start(&server, "u", "kaudit/kaudit");
        former.set(|result| result.results = vec![entry(Some("shop"), "a", "late")]);
        until_mirrored(&server, &former).await;
        running.abort();
        let late = server.bucket("blue").into_iter().filter(|(key, _)| key.contains(".results."));
        let late: Vec<_> = late.map(|(key, kept)| BucketWrite::put(key, kept.value.to_vec())).collect();
        server.set_down(is_down_at_first);
        let (pipeline, _health, _running) = start(&server, "u", "kaudit/kaudit");
        pipeline.set(|result| result.results = vec![entry(Some("shop"), "a", "now")]);
        sleep(Duration::from_secs(5)).await;
        server.set_down(false);
        until_mirrored(&server, &pipeline).await;
        server.open("blue").await.unwrap().write(&late).await.unwrap();
        sleep(Duration::from_mins(2)).await;
        assert_eq!(read(&server).result(Timestamp::now()).unwrap().unwrap().results, pipeline.result().results);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_whose_results_cannot_be_written_does_not_look_live() {
    let server = MemoryServer::default();
    let (pipeline, health, _running) = start(&server, "u", "kaudit/kaudit");
    pipeline.set(|result| result.results = vec![entry(Some("shop"), "a", "m")]);
    until_mirrored(&server, &pipeline).await;
    server.refuse(".results.");
    pipeline.set(|result| result.results.clear());
    sleep(Duration::from_mins(2)).await;
    assert!(health.borrow().trouble.contains("the bucket is full"), "{:?}", health.borrow());
    server.take_written();
    sleep(Duration::from_mins(10)).await;
    assert!(!server.take_written().iter().any(|key| is_item(key, "heartbeat")));
    server.refuse("nothing");
    until_mirrored(&server, &pipeline).await;
    sleep(Duration::from_mins(2)).await;
    assert_eq!(health.borrow().trouble, "");
    assert!(server.take_written().iter().any(|key| is_item(key, "heartbeat")));
}

#[tokio::test(start_paused = true)]
async fn a_bucket_belongs_to_one_cluster_and_one_kaudit() {
    let server = MemoryServer::default();
    let (_first, health, first_running) = start(&server, "u", "kaudit/kaudit");
    sleep(Duration::from_secs(5)).await;
    let (_second, of_second, _running) = start(&server, "other", "kaudit/kaudit");
    let (_third, of_third, _running_too) = start(&server, "u", "team/kaudit");
    sleep(Duration::from_secs(30)).await;
    assert_eq!(health.borrow().trouble, "");
    assert!(of_second.borrow().trouble.contains("belongs to another cluster"), "{:?}", of_second.borrow());
    assert!(
        of_third
            .borrow()
            .trouble
            .contains("written by another kaudit of this cluster, that of the Audit kaudit/kaudit")
    );
    // The other kaudit takes it over when the first is gone; timestamps are those of the real clock.
    first_running.abort();
}

#[tokio::test(start_paused = true)]
async fn of_two_with_the_same_identity_one_goes_on() {
    let server = MemoryServer::default();
    let (one, health, _running) = start(&server, "u", "default/kaudit");
    one.set(|result| result.results = vec![entry(Some("shop"), "a", "m")]);
    until_mirrored(&server, &one).await;
    let (other, other_health, _running_too) = start(&server, "u", "default/kaudit");
    other.set(|result| result.results = vec![entry(Some("shop"), "b", "m")]);
    sleep(Duration::from_mins(10)).await;
    let names = || {
        let result = read(&server).result(Timestamp::now()).unwrap().unwrap();
        result.results.into_iter().map(|entry| entry.resource.name.to_string()).collect::<Vec<_>>()
    };
    let troubles = || [&health, &other_health].map(|health| health.borrow().trouble.clone());
    let (first, refused) = (names(), troubles());
    assert_eq!(first.len(), 1);
    assert_eq!(refused.iter().filter(|why| why.contains("is written by another kaudit of this cluster")).count(), 1);
    for _ in 0..300 {
        sleep(Duration::from_secs(1)).await;
        assert_eq!((names(), troubles()), (first.clone(), refused.clone()));
    }
}
