//! A recorder against a server whose responses the test decides.

use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::sync::watch;
use tower::service_fn;

use super::*;
use crate::{
    audit::{
        command::Record as _,
        ledger::{Delta, Violation},
        queue::Lane,
    },
    metrics::Metrics,
    model::{object::ObjectRef, verdict::Finding},
    record::health::Health,
};

/// The Events that a server accepted.
type Taken = Arc<Mutex<Vec<Event>>>;

struct Scene {
    taken: Taken,
    attempts: Arc<AtomicUsize>,
    metrics: Arc<Metrics>,
    health: watch::Receiver<Health>,
}

fn status(code: u16, reason: &str, retry_after: u32) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "reason": reason, "code": code,
        "details": {"retryAfterSeconds": retry_after}})
}

/// Starts a recorder; `refuses` returns the server's refusal of an Event, given the count of attempts before it.
fn scene(
    filter: EventFilter,
    refuses: impl Fn(usize, &Event) -> Option<Value> + Send + Sync + 'static,
) -> (Scene, EventSink, impl Future<Output = ()> + Send) {
    let (scene, settings) = settings(filter, refuses);
    let (sink, recorder) = start(settings);
    (scene, sink, recorder)
}

fn settings(
    filter: EventFilter,
    refuses: impl Fn(usize, &Event) -> Option<Value> + Send + Sync + 'static,
) -> (Scene, EventSettings) {
    let (taken, attempts, refuses) = (Taken::default(), Arc::<AtomicUsize>::default(), Arc::new(refuses));
    let (kept, counted) = (Arc::clone(&taken), Arc::clone(&attempts));
    let service = service_fn(move |request: http::Request<Body>| {
        let (taken, attempts, refuses) = (Arc::clone(&kept), Arc::clone(&counted), Arc::clone(&refuses));
        async move {
            let body = request.into_body().collect_bytes().await.unwrap();
            let event: Event = serde_json::from_slice(&body).unwrap();
            let answer = refuses(attempts.fetch_add(1, Ordering::SeqCst), &event);
            let (code, body) = if let Some(status) = answer {
                (u16::try_from(status["code"].as_u64().unwrap()).unwrap(), status.to_string())
            } else {
                taken.lock().unwrap().push(event);
                (201, String::from_utf8(body.to_vec()).unwrap())
            };
            Ok::<_, Infallible>(http::Response::builder().status(code).body(Body::from(body.into_bytes())).unwrap())
        }
    });
    let (health, trouble) = watch::channel(Health::default());
    let own = ObjectRef {
        kind: "Audit".to_owned(),
        namespace: Some("kaudit".into()),
        name: "kaudit".into(),
        ..ObjectRef::default()
    };
    let metrics = Arc::new(Metrics::default());
    let settings = EventSettings {
        client: Client::new(service, "default"),
        filter,
        per_second: 1_000.0,
        own,
        audit: "kaudit/kaudit".to_owned(),
        metrics: Arc::clone(&metrics),
        health,
    };
    (Scene { taken, attempts, metrics, health: trouble }, settings)
}

impl Scene {
    fn reasons(&self) -> Vec<String> {
        self.taken.lock().unwrap().iter().filter_map(|event| event.reason.clone()).collect()
    }

    fn count(&self, reason: &str) -> usize {
        self.reasons().iter().filter(|other| *other == reason).count()
    }

    fn metric(&self, line: &str) -> bool {
        self.metrics.encode().lines().any(|other| other == line)
    }
}

/// A delta of an object whose violations with these messages appeared.
fn delta(namespace: &str, name: &str, messages: &[&str], lane: Lane) -> Delta {
    let uid = format!("{namespace}/{name}").into();
    let object = ObjectRef { namespace: Some(namespace.into()), name: name.into(), uid, ..ObjectRef::sample() };
    let violation = |message: &&str| Violation::new(&object, Finding::sample(message), Timestamp::UNIX_EPOCH);
    let appeared = messages.iter().map(violation).collect();
    Delta { object: Arc::new(object), appeared, lane, ..Delta::sample() }
}

fn resolved(delta: &Delta) -> Delta {
    Delta { appeared: Vec::new(), resolved: delta.appeared.clone(), lane: Lane::Change, ..delta.clone() }
}

#[tokio::test]
async fn an_overloaded_server_gets_no_requests_until_retry_after_and_no_event_is_lost() {
    let busy = |attempt, _: &Event| (attempt < 4).then(|| status(429, "TooManyRequests", 1));
    let (scene, mut sink, recorder) = scene(EventFilter::All, busy);
    for number in 0..50 {
        sink.record(&mut delta("a", &number.to_string(), &["x"], Lane::Snapshot));
    }
    drop(sink);
    let begin = Instant::now();
    recorder.await;
    assert!(begin.elapsed() >= Duration::from_secs(1), "as the server said");
    let mut names: Vec<_> = scene.taken.lock().unwrap().iter().map(|event| event.metadata.name.clone()).collect();
    names.sort();
    names.dedup();
    assert_eq!((names.len(), scene.attempts.load(Ordering::SeqCst)), (50, 54), "each once");
    assert!(
        scene.metric("kaudit_recorder_retries_total{recorder=\"events\"} 4")
            && *scene.health.borrow() == Health::default()
    );
}

#[tokio::test]
async fn a_namespace_that_refuses_events_delays_no_other_and_is_retried_rarely() {
    let forbidden =
        |_, event: &Event| (event.metadata.namespace.as_deref() == Some("a")).then(|| status(403, "Forbidden", 0));
    let (scene, mut sink, recorder) = scene(EventFilter::All, forbidden);
    for number in 0..100 {
        sink.record(&mut delta("a", &number.to_string(), &["x"], Lane::Change));
        sink.record(&mut delta("b", &number.to_string(), &["x"], Lane::Snapshot));
    }
    drop(sink);
    recorder.await;
    assert_eq!(scene.count("PolicyViolation"), 100);
    let refused = scene.attempts.load(Ordering::SeqCst) - 100;
    assert!(refused <= recorder::WRITES_AT_A_TIME, "{refused}");
    assert!(scene.metric(r#"kaudit_recorder_drops_total{recorder="events",reason="unavailable"} 100"#));
    assert_eq!(scene.health.borrow().trouble, "Events cannot be written in namespace a: no");
}

/// They wait because they are refused, not because there are many.
#[tokio::test]
async fn events_of_a_namespace_that_refuses_them_are_not_summed_up() {
    let (_scene, settings) = settings(EventFilter::All, |_, _| None);
    let (mut recorder, now) = (EventRecorder::new(settings), Instant::now());
    let (mut sink, mut incoming) = sink::channel();
    for namespace in ["a", "b"] {
        sink.record(&mut delta(namespace, "one", &["x"], Lane::Change));
        recorder.receive(incoming.recv().await.unwrap());
    }
    recorder.pauses.namespace_failed("a", Duration::from_mins(5), "is forbidden".to_owned(), now);
    let later = now + Duration::from_mins(1);
    recorder.sum_up(later);
    assert_eq!(recorder.queue.len(), 3, "one about b");
    recorder.pauses.succeeded("a");
    recorder.sum_up(later);
    assert_eq!(recorder.queue.len(), 4, "and one about a");
}

#[tokio::test]
async fn events_dropped_by_the_object_rate_are_summed_up_at_the_end() {
    let (scene, mut sink, recorder) = scene(EventFilter::All, |_, _| None);
    let messages: Vec<_> = (0..100).map(|number| number.to_string()).collect();
    let messages: Vec<_> = messages.iter().map(String::as_str).collect();
    sink.record(&mut delta("a", "loud", &messages, Lane::Snapshot));
    let recorder = tokio::spawn(recorder);
    while scene.count("PolicyViolation") < 25 {
        tokio::task::yield_now().await;
    }
    sink.record(&mut delta("a", "other", &["x"], Lane::Snapshot));
    drop(sink);
    recorder.await.unwrap();
    assert_eq!((scene.count("PolicyViolation"), scene.count("EventsDropped")), (26, 1));
    assert!(scene.metric(r#"kaudit_recorder_drops_total{recorder="events",reason="object_rate"} 75"#));
    let taken = scene.taken.lock().unwrap();
    let sum = taken.last().unwrap();
    assert!(
        sum.note.as_ref().unwrap().starts_with("75 Events about objects in this namespace were not written"),
        "{sum:?}"
    );
    let about = sum.regarding.as_ref().unwrap();
    assert_eq!((about.kind.as_deref(), about.namespace.as_deref()), (Some("Namespace"), Some("a")));
}

#[tokio::test]
async fn resolutions_that_are_filtered_out_still_supersede_appearances() {
    let (scene, mut sink, recorder) = scene(EventFilter::Appeared, |_, _| None);
    let (one, other) = (delta("a", "one", &["x"], Lane::Snapshot), delta("a", "other", &["x"], Lane::Change));
    sink.record(&mut one.clone());
    sink.record(&mut resolved(&one));
    sink.record(&mut other.clone());
    let recorder = tokio::spawn(recorder);
    while scene.count("PolicyViolation") == 0 {
        tokio::task::yield_now().await;
    }
    sink.record(&mut resolved(&other));
    drop(sink);
    recorder.await.unwrap();
    assert_eq!(scene.reasons(), ["PolicyViolation"]);
    assert!(scene.metric("kaudit_events_superseded_total 2"));
}

#[tokio::test]
async fn changes_are_written_before_the_backlog_and_resolved_violations_not_at_all() {
    let (scene, mut sink, recorder) = scene(EventFilter::All, |_, _| None);
    let backlog: Vec<_> = (0..20).map(|number| delta("a", &number.to_string(), &["x"], Lane::Snapshot)).collect();
    for delta in &backlog {
        sink.record(&mut delta.clone());
    }
    backlog.iter().take(5).for_each(|delta| sink.record(&mut resolved(delta)));
    sink.policies_refused("older");
    sink.policies_refused("newer");
    sink.record(&mut delta("b", "new", &["x"], Lane::Change));
    drop(sink);
    recorder.await;
    let taken = scene.taken.lock().unwrap();
    let namespaces: Vec<_> = taken.iter().filter_map(|event| event.metadata.namespace.as_deref()).collect();
    assert_eq!((namespaces[..2].to_vec(), namespaces.len()), (vec!["b", "kaudit"], 17));
    assert_eq!(taken[1].note.as_deref(), Some("newer"));
}
