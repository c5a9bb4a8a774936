//! What very many objects cost: the memory of each, and how long the task that owns the state is held by what concerns all.
//!
//! ```text
//! cargo test --release --lib pipeline::tests::scale -- --ignored --nocapture
//! ```
//!
//! `KAUDIT_TEST_SCALE` is the number of objects (100,000). Times are those that a poll of the task computes, so what else
//! the machine does counts for nothing; only what happens on the other threads is left out with it.

use std::{
    pin::Pin,
    sync::atomic::{AtomicU64, Ordering},
    task::{Context, Poll},
};

use kaudit_test_support::{objects, settings::setting};

use super::*;
use crate::rego::analysis::cpu_time::CpuTimer;

/// Namespaces that the objects are spread over.
const NAMESPACES: usize = 2_000;
/// Different Pods; all others differ from one of them in what is theirs alone.
const MODELS: usize = 2_000;

/// A task, and the longest of its polls in nanoseconds of CPU time.
struct Timed<F> {
    task: Pin<Box<F>>,
    longest: Arc<AtomicU64>,
}

impl<F: Future> Future for Timed<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let began = CpuTimer::start();
        let polled = self.task.as_mut().poll(context);
        let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.longest.fetch_max(took, Ordering::Relaxed);
        polled
    }
}

/// The resident memory of this process in bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or_default() * 4_096
}

/// Makes Pods like those of the benchmark.
struct Pods {
    kind: Arc<Kind>,
    /// What follows the name of each model.
    models: Vec<(String, String)>,
}

impl Pods {
    fn new() -> Self {
        let pods = (0..).map(objects::object).filter(|(kind, _)| *kind == objects::Kind::Pod).take(MODELS);
        let models = pods.map(|(_, mut pod)| {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            for field in ["name", "namespace"] {
                pod["metadata"].as_object_mut().unwrap().remove(field);
            }
            let text = pod.to_string();
            let (_, rest) = text.split_once(r#""metadata":{"#).unwrap();
            (name, rest.to_owned())
        });
        Self { kind: kind("Pod"), models: models.collect() }
    }

    /// Returns a state of the Pod with this number.
    fn pod(&self, number: usize, version: usize) -> Object {
        let (app, rest) = &self.models[number % MODELS];
        let (name, namespace) = (format!("{app}-{number:06}"), format!("team-{:04}", number % NAMESPACES));
        let uid = format!("{:08x}-7e1f-4a2b-9c3d-{:012x}", fastrand::Rng::with_seed(number as u64).u32(..), number);
        let version = (1_000_000 + number + version).to_string();
        let json = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","namespace":"{namespace}","uid":"{uid}","resourceVersion":"{version}",{rest}"#
        );
        let key =
            ObjectKey { kind: Arc::clone(&self.kind), namespace: Some(namespace.into()), name: name.into(), copy: 0 };
        Object { uid: uid.into(), resource_version: version.into(), ..Object::sample(key, json.as_bytes()) }
    }
}

fn namespace(number: usize, version: u64, labels: &Value, annotations: &Value) -> Object {
    let rest = json!({"metadata": {"labels": labels, "annotations": annotations}});
    object("Namespace", "", &format!("team-{number:04}"), version, &rest)
}

/// Prints a line for each step.
struct Steps {
    live: Live,
    longest: Arc<AtomicU64>,
    began: Instant,
}

impl Steps {
    /// Ends a step when nothing is left to be evaluated, and `evaluated` objects have been.
    async fn end(&mut self, step: &str, evaluated: u64) {
        while self.live.metric("kaudit_evaluations_total") < evaluated
            || self.live.metric("kaudit_queue_length") > 0
            || self.live.changes.capacity() < self.live.changes.max_capacity()
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // The next look at whether anything is to be published: what is idle is cleared up by then.
        tokio::time::sleep(2 * OVERVIEW_EVERY).await;
        let longest = Duration::from_nanos(self.longest.swap(0, Ordering::Relaxed));
        let took = self.began.elapsed();
        println!("| {step} | {took:.1?} | {longest:.1?} | {} MB |", resident() / 1_000_000);
        self.began = Instant::now();
    }
}

const REQUIRED: &str = "package image\ndeny contains \"no image\" if {\n\tinput.kind == \"Pod\"\n\tsome container in \
                        input.spec.containers\n\tnot container.image\n}\n";
const OTHER: &str = "package image\ndeny contains \"no name\" if {\n\tinput.kind == \"Pod\"\n\tsome container in \
                     input.spec.containers\n\tnot container.name\n}\n";
const SOME: &str = "package image\ndeny contains \"latest\" if {\n\tinput.kind == \"Pod\"\n\tsome container in \
                    input.spec.containers\n\tendswith(container.image, \":latest\")\n}\n";

/// A pipeline that does not run by itself.
fn still(policies: Arc<PolicySet>) -> Pipeline {
    let outputs = Outputs {
        progress: watch::channel(Progress::default()).0,
        policies: watch::channel(Arc::clone(&policies)).0,
        overview: watch::channel(None).0,
        delta_recorded: watch::Sender::default(),
        packing: crate::model::body::Packing::default(),
        in_flight: InFlight::default(),
        labels: std::collections::BTreeSet::new(),
        metrics: Arc::default(),
    };
    Pipeline::new(policies, Exceptions::default(), SETTINGS, outputs)
}

/// Has a pipeline deal with changes; returns in how many turns, of which none may queue more than a part of the objects.
fn turns(pipeline: &mut Pipeline, changes: impl IntoIterator<Item = Change>) -> usize {
    pipeline.agenda.received.extend(changes);
    let mut turns = 0;
    while pipeline.is_busy() {
        let before = pipeline.schedule.queue.waiting();
        pipeline.proceed(Instant::now());
        assert!(
            pipeline.schedule.queue.waiting() - before <= TURN,
            "{} at a time",
            pipeline.schedule.queue.waiting() - before
        );
        // Until all of it is done, nothing is evaluated that may depend on the rest.
        if pipeline.is_busy() {
            pipeline.dispatch(Instant::now());
            assert_eq!(pipeline.schedule.queue.is_idle(), pipeline.schedule.queue.waiting() == 0);
        }
        turns += 1;
    }
    turns
}

/// What holds the task with hundreds of thousands of objects is done in parts, here of few objects.
#[test]
fn work_about_many_objects_is_done_in_parts() {
    const OBJECTS: usize = 3 * TURN;
    let mut pipeline = still(load(&[("image.rego", REQUIRED), ("prod.yaml", IN_PROD)]));
    let stage = |version, stage: &str| namespace(0, version, &json!({"stage": stage}), &json!({}));
    let seen = |object: Object| Change::Seen(WatchScope { kind: object.key.kind.clone(), namespace: None }, object);
    let pod = |number: usize| object("Pod", "team-0000", &format!("p{number}"), 1, &json!({}));
    let kinds = ["Namespace", "Pod"];
    let begin = kinds.iter().flat_map(|kind| [Change::Appeared(scope(kind)), Change::Listing(scope(kind))]);
    let objects = (0..OBJECTS).map(pod).chain([stage(1, "test")]).map(seen);
    let end = kinds.iter().map(|kind| Change::Synced(scope(kind))).chain([Change::Discovered(Discovered::default())]);
    assert!(turns(&mut pipeline, begin.chain(objects).chain(end)) > 3, "the gate opens");
    assert_eq!((pipeline.objects.gate.is_open(), pipeline.schedule.queue.waiting()), (true, OBJECTS + 1));
    let empty = |pipeline: &mut Pipeline| {
        while let Some(key) = pipeline.schedule.queue.pop() {
            pipeline.schedule.queue.done(&key);
        }
    };
    empty(&mut pipeline);
    let annotated = namespace(0, 2, &json!({"stage": "test"}), &json!({"note": "x"}));
    assert_eq!(turns(&mut pipeline, [seen(annotated)]), 1);
    assert_eq!(pipeline.schedule.queue.waiting(), 0, "no policy reads that field of a Namespace");
    assert!(turns(&mut pipeline, [seen(stage(3, "prod"))]) > 3, "a Namespace has other labels");
    assert_eq!(pipeline.schedule.queue.waiting(), OBJECTS);
    empty(&mut pipeline);
    // New policies wait until the rest is done, as if that had been done at once.
    pipeline.agenda.received.push_back(seen(stage(4, "test")));
    pipeline.proceed(Instant::now());
    assert!(pipeline.is_busy());
    pipeline.agenda.held = Some(Command::Reload(Ok(load(&[("image.rego", OTHER)]))));
    assert!(turns(&mut pipeline, []) > 5);
    assert_eq!(pipeline.schedule.queue.waiting(), OBJECTS + 1);
    empty(&mut pipeline);
    let again = [Change::Listing(scope("Pod")), seen(pod(1)), Change::Synced(scope("Pod"))];
    assert!(turns(&mut pipeline, again) > 2, "nearly all are gone");
    assert_eq!(pipeline.objects.cache.len(&scope("Pod")), 1);
}

#[tokio::test]
#[ignore = "prints figures, for minutes"]
async fn what_many_objects_cost() {
    let objects: usize = setting("KAUDIT_TEST_SCALE").unwrap_or(100_000);
    let evaluations = objects as u64;
    let pods = Pods::new();
    let longest = Arc::<AtomicU64>::default();
    let policies = |text| load(&[("image.rego", text), ("prod.yaml", IN_PROD)]);
    let live = {
        let longest = Arc::clone(&longest);
        Live::spawned(
            policies(REQUIRED),
            SETTINGS,
            None,
            |pipeline| pipeline.agenda.turn = TURN,
            |task| tokio::spawn(Timed { task: Box::pin(task), longest }),
        )
    };
    let mut steps = Steps { live, longest, began: Instant::now() };
    println!("| step | took | longest poll | resident |\n|---|---|---|---|");
    let stage = |stage: &str| json!({"stage": stage});
    let namespaces = |version, stage: Value, annotations: Value| {
        (0..NAMESPACES).map(move |number| namespace(number, version, &stage, &annotations))
    };
    steps.live.sync(namespaces(1, stage("test"), json!({})).collect()).await;
    steps.end("start", NAMESPACES as u64).await;
    let before = resident();
    let mut evaluated = steps.live.metric("kaudit_evaluations_total");
    // A list that arrives when the gate is open is evaluated at its end, as all are when it opens.
    let pod_scope = WatchScope { kind: Arc::clone(&pods.kind), namespace: None };
    let mut body = 0;
    for round in 0..2 {
        steps.live.send(Change::Vanished(pod_scope.clone())).await;
        steps.live.send(Change::Appeared(pod_scope.clone())).await;
        steps.live.send(Change::Listing(pod_scope.clone())).await;
        for number in 0..objects {
            let pod = pods.pod(number, 0);
            body += pod.body.bytes().len();
            steps.live.seen(pod).await;
        }
        steps.end("objects are read", evaluated).await;
        steps.live.send(Change::Synced(pod_scope.clone())).await;
        evaluated += evaluations;
        steps.end("the list is complete, all are evaluated", evaluated).await;
        if round == 0 {
            let each = (resident() - before) / evaluations;
            println!("each object of {} bytes: {each} bytes", body / objects);
            steps.live.send(Change::Vanished(pod_scope.clone())).await;
            steps.end("the kind is no longer served", evaluated).await;
        }
    }
    for number in 0..objects {
        steps.live.seen(pods.pod(number, objects)).await;
    }
    steps.end("each changed in a field that no policy reads", evaluated).await;
    for namespace in namespaces(2, stage("test"), json!({"note": "other"})) {
        steps.live.seen(namespace).await;
    }
    steps.end("each Namespace is annotated", evaluated).await;
    for namespace in namespaces(3, stage("staging"), json!({})) {
        steps.live.seen(namespace).await;
    }
    evaluated += evaluations;
    steps.end("each Namespace is relabelled", evaluated).await;
    steps.live.send(Change::Listing(pod_scope.clone())).await;
    for number in 0..objects {
        steps.live.seen(pods.pod(number, objects)).await;
    }
    steps.live.send(Change::Synced(pod_scope.clone())).await;
    steps.end("all are listed again", evaluated).await;
    steps.live.reload(Ok(policies(OTHER))).await;
    evaluated += evaluations;
    steps.end("other policies", evaluated).await;
    steps.live.reload(Ok(policies(SOME))).await;
    evaluated += evaluations;
    steps.end("policies that some violate", evaluated).await;
    let found = steps.live.result().await.results.len();
    steps.end(&format!("the whole result: {found}"), evaluated).await;
    steps.live.command(Command::Except(Ok(Exceptions::default()))).await;
    steps.end("other exceptions", evaluated).await;
    steps.live.reload(Ok(policies(REQUIRED))).await;
    evaluated += evaluations;
    steps.end("policies without violations", evaluated).await;
}
