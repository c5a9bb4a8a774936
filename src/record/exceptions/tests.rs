use std::{convert::Infallible, sync::Mutex};

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::Value;

use super::{exception_notice::due, *};
use crate::model::exception::{ExceptionProblem, ExceptionState};

const TTL: SignedDuration = SignedDuration::from_hours(1);

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn object(name: &str, status: Option<ExceptionStatus>) -> ExceptionObject {
    let reference = ObjectRef {
        cluster: None,
        api_version: API_VERSION.to_owned(),
        kind: EXCEPTION_KIND.to_owned(),
        namespace: Some("shop".into()),
        name: name.into(),
        uid: format!("uid of {name}").into(),
    };
    ExceptionObject { reference, generation: Some(2), status }
}

fn summary(state: ExceptionState, object: ExceptionObject) -> ExceptionSummary {
    let message = match state {
        ExceptionState::Invalid => "rules of policy images cannot be excused by a namespace",
        ExceptionState::Expired => "expired at 2027-02-01T00:00:00Z",
        _ => "",
    };
    ExceptionSummary {
        name: object.reference.path(),
        state,
        reason: "legacy".into(),
        expires_at: Some(time("2027-02-01T00:00:00Z")),
        results: usize::from(state == ExceptionState::Active),
        location: None,
        message: message.to_owned(),
        problem: (state == ExceptionState::Invalid).then_some(ExceptionProblem::NotExcusable),
        refused_rules: 0,
        object: Some(Arc::new(object)),
    }
}

#[test]
fn the_status_follows_the_state_and_keeps_the_time_of_its_transition() {
    let now = time("2027-01-01T12:00:00.5Z");
    let status = |state, present: Option<&ExceptionStatus>, now| {
        let summary = summary(state, object("a", None));
        wanted(&summary, &summary.object.clone().unwrap(), present, now)
    };
    let active = status(ExceptionState::Active, None, now);
    let condition = |status: &ExceptionStatus| (status.accepted, status.reason.clone(), status.message.clone());
    assert_eq!(condition(&active), (true, "Active".to_owned(), String::new()));
    assert_eq!((active.results, active.observed_generation, active.days_left), (1, 2, None));
    assert_eq!(active.transition, "2027-01-01T12:00:00Z");
    assert_eq!(active.expires_at.as_deref(), Some("2027-02-01T00:00:00Z"));
    let later = time("2027-01-20T13:00:00Z");
    let expiring = status(ExceptionState::Expiring, Some(&active), later);
    assert_eq!((expiring.transition, expiring.days_left), (active.transition.clone(), Some(11)));
    let invalid = status(ExceptionState::Invalid, Some(&active), later);
    let why = "is not in force: rules of policy images cannot be excused by a namespace";
    assert_eq!(condition(&invalid), (false, "NotExcusable".to_owned(), why.to_owned()));
    assert_eq!(invalid.transition, "2027-01-20T13:00:00Z");
    let ended = status(ExceptionState::Expired, Some(&invalid), time("2027-03-01T00:00:00Z"));
    assert_eq!((ended.transition, ended.days_left, &*ended.reason), (invalid.transition, None, "Expired"));
    // An exception that is in force for only some of its rules reports the others.
    let partly = ExceptionSummary { refused_rules: 2, ..summary(ExceptionState::Unused, object("a", None)) };
    let message = wanted(&partly, &partly.object.clone().unwrap(), None, now).message;
    assert_eq!(message, "no violation matches it; 2 of its rules cannot be excused by a namespace");
    // Time alone changes nothing.
    assert_eq!(status(ExceptionState::Active, Some(&active), now + SignedDuration::from_hours(24)), active);
}

#[test]
fn a_notice_is_due_once_and_not_again_after_a_restart() {
    let now = time("2027-01-25T00:00:00Z");
    let notice = |summary: &ExceptionSummary, reported: &mut Option<ReportedNotice>| {
        due(summary, summary.object.as_ref().unwrap(), reported, (now, TTL))
    };
    for (state, reason, note) in [
        (ExceptionState::Invalid, "PolicyExceptionInvalid", "is not in force: rules of policy images cannot be"),
        (ExceptionState::Expiring, "PolicyExceptionExpiring", "ends at 2027-02-01T00:00:00Z: its violations are"),
        (ExceptionState::Expired, "PolicyExceptionExpired", "ended at 2027-02-01T00:00:00Z: its violations are"),
    ] {
        let bad = summary(state, object("a", None));
        let mut reported = None;
        let first = notice(&bad, &mut reported).unwrap();
        assert!(first.reason == reason && first.note.starts_with(note), "{first:?}");
        assert_eq!(notice(&bad, &mut reported), None);
        // If it is valid in between, the name of the Event prevents a second one.
        assert_eq!(notice(&summary(ExceptionState::Active, object("a", None)), &mut reported), None);
        assert_eq!(notice(&bad, &mut reported).unwrap().identity, first.identity);
    }
    let restarted = |transition: &str, observed_generation: i64| {
        let bad = summary(ExceptionState::Invalid, object("a", None));
        let status = wanted(&bad, &bad.object.clone().unwrap(), None, time(transition));
        let status = ExceptionStatus { observed_generation, ..status };
        notice(&summary(ExceptionState::Invalid, object("a", Some(status))), &mut None).is_some()
    };
    assert!(!restarted("2027-01-24T22:00:00Z", 2));
    assert!(restarted("2027-01-24T23:30:00Z", 2), "the earlier run may have ended before it wrote the Event");
    assert!(restarted("2027-01-24T22:00:00Z", 1), "it was changed since");
}

/// The statuses that were written, by name.
type Written = Arc<Mutex<Vec<(String, Value)>>>;

/// Returns a recorder that writes to a server with this answer.
fn recorder(code: u16, answer: &'static str) -> (ExceptionRecorder, Written) {
    let written = Written::default();
    let requests = Arc::clone(&written);
    let service = tower::service_fn(move |request: Request<Body>| {
        let requests = Arc::clone(&requests);
        async move {
            let path = request.uri().path().to_owned();
            assert_eq!((request.method(), path.ends_with("/status")), (&Method::PATCH, true), "{path}");
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let body: Value = serde_json::from_slice(&body).unwrap();
            let name = body["metadata"]["name"].as_str().unwrap().to_owned();
            requests.lock().unwrap().push((name, body["status"].clone()));
            Ok::<_, Infallible>(Response::builder().status(code).body(Body::from(answer.as_bytes().to_vec())).unwrap())
        }
    });
    let settings = ExceptionSettings {
        client: Client::new(service, "default"),
        namespaces: vec!["shop".to_owned()],
        shard: Shard::WHOLE,
        status: true,
        events: None,
        event_ttl: Duration::from_hours(1),
        metrics: Arc::default(),
    };
    (ExceptionRecorder::new(settings, watch::Sender::default()), written)
}

const FINE: &str = r#"{"apiVersion": "kaudit.dev/v1alpha1", "kind": "PolicyException", "metadata": {"name": "a"}}"#;

#[tokio::test]
async fn a_status_is_written_once_and_only_if_the_server_does_not_have_it() {
    let (mut recorder, written) = recorder(200, FINE);
    let now = Timestamp::now();
    let mut elsewhere = object("b", None);
    elsewhere.reference.namespace = Some("other".into());
    let all = [summary(ExceptionState::Active, object("a", None)), summary(ExceptionState::Active, elsewhere)];
    recorder.compare(&all, now);
    let name = recorder.next_due(Instant::now()).unwrap();
    assert_eq!(&*name.name, "a");
    recorder.write(&name).await;
    assert_eq!(written.lock().unwrap().len(), 1);
    // The overview does not have the write yet.
    recorder.compare(&all, now);
    assert!(recorder.next(Instant::now()).is_none());
    // A count waits for a while, a condition does not.
    let more = ExceptionSummary { results: 7, ..all[0].clone() };
    recorder.compare(&[more], now);
    assert!(recorder.next(Instant::now()).unwrap().0 > Instant::now() + COUNTS_EVERY / 2);
    recorder.compare(&[summary(ExceptionState::Invalid, object("a", None))], now);
    assert!(recorder.next(Instant::now()).unwrap().0 <= Instant::now() + AT_LEAST);
    recorder.finish().await;
    let statuses = written.lock().unwrap().clone();
    assert_eq!(statuses.len(), 2);
    assert_eq!(statuses[1].1["conditions"][0]["reason"], "NotExcusable");
}

#[tokio::test]
async fn nothing_is_written_after_a_restart() {
    let (mut recorder, written) = recorder(200, FINE);
    let now = Timestamp::now();
    for state in [ExceptionState::Active, ExceptionState::Expiring, ExceptionState::Unused, ExceptionState::Invalid] {
        let before = summary(state, object("a", None));
        let status = wanted(&before, &before.object.clone().unwrap(), None, now - SignedDuration::from_secs(7));
        recorder.compare(&[summary(state, object("a", Some(status)))], now);
        assert!(recorder.next(Instant::now()).is_none(), "{state:?}");
        recorder.compare(&[], now);
    }
    recorder.finish().await;
    assert!(written.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_crd_without_a_status_is_retried_late_and_a_missing_permission_is_reported() {
    let all = [summary(ExceptionState::Active, object("a", None))];
    let missing = r#"{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404,
        "message": "the server could not find the requested resource", "details": {}}"#;
    let (mut without, _) = recorder(404, missing);
    without.compare(&all, Timestamp::now());
    without.write(&object("a", None).reference).await;
    assert!(without.next(Instant::now()).unwrap().0 > Instant::now() + NO_STATUS / 2);
    assert_eq!(*without.health.borrow(), Health::default());
    let forbidden = r#"{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403,
        "message": "may not patch", "details": {"name": "a"}}"#;
    let (mut refused, _) = recorder(403, forbidden);
    refused.compare(&all, Timestamp::now());
    refused.write(&object("a", None).reference).await;
    assert!(refused.health.borrow().trouble.starts_with("the status of PolicyException shop/a was not written: "));
    assert!(refused.next(Instant::now()).unwrap().0 > Instant::now() + REFUSED / 2);
}
