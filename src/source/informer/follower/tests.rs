use std::{collections::VecDeque, convert::Infallible, sync::Mutex};

use axum::body::Body as Answer;
use futures::{StreamExt as _, stream};
use http::{Request, Response};
use kube::{Client, client::Body};
use serde_json::{Value, json};

use tokio::sync::mpsc;

use super::*;
use crate::{
    cluster::client::Clients,
    model::{object::Kind, shard::Shard},
    source::{informer::ReadOptions, received::Secrets},
};

/// The response of the test server to one request.
#[derive(Clone)]
enum ScriptedResponse {
    Refusal(u16),
    Text(String),
    /// Lines, then the end.
    Lines(Vec<Value>),
    /// Lines, then silence for the duration, then the end.
    LinesAndSilence(Vec<Value>, Duration),
    /// A current version that is lower than that of the list.
    EarlierVersion,
    /// Silence for the duration, then a timeout of the connection.
    TimeOut(Duration),
}

fn object(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "n", "uid": name, "resourceVersion": "1"}})
}

fn list(names: &[&str], from: &str) -> ScriptedResponse {
    let items: Vec<_> = names.iter().map(|name| object(name)).collect();
    ScriptedResponse::Text(json!({"metadata": {"resourceVersion": "7", "continue": from}, "items": items}).to_string())
}

fn event(what: &str, object: impl Into<Value>) -> Value {
    let object = object.into();
    json!({"type": what, "object": object})
}

fn refusal(code: u16) -> Value {
    json!({"kind": "Status", "code": code, "message": format!("code {code}"), "status": "Failure", "reason": ""})
}

fn expired() -> ScriptedResponse {
    ScriptedResponse::Lines(vec![event("ERROR", refusal(410))])
}

fn response(scripted: ScriptedResponse) -> Response<Answer> {
    let lines =
        |lines: Vec<Value>| stream::iter(lines.into_iter().map(|line| Ok::<_, Infallible>(format!("{line}\n"))));
    match scripted {
        ScriptedResponse::Refusal(code) => {
            Response::builder().status(code).body(Answer::from(refusal(code).to_string())).unwrap()
        }
        ScriptedResponse::Text(text) => Response::new(Answer::from(text)),
        ScriptedResponse::EarlierVersion => panic!("no request for the present version came"),
        ScriptedResponse::Lines(all) => Response::new(Answer::from_stream(lines(all))),
        ScriptedResponse::TimeOut(after) => {
            let end = stream::once(sleep(after))
                .map(|()| Err::<String, _>(std::io::Error::from(std::io::ErrorKind::TimedOut)));
            Response::new(Answer::from_stream(end))
        }
        ScriptedResponse::LinesAndSilence(all, silence) => {
            let rest = stream::once(sleep(silence)).filter_map(async |()| None);
            Response::new(Answer::from_stream(lines(all).chain(rest)))
        }
    }
}

/// Returns a follower of Pods whose server gives these answers in order and then none, the receiver of its changes, and
/// the paths it requested.
fn follower(
    once: bool,
    answers: Vec<ScriptedResponse>,
) -> (ScopeFollower, mpsc::Receiver<Change>, Arc<Mutex<Vec<String>>>) {
    let (sender, receiver) = mpsc::channel(100);
    let requests = Arc::new(Mutex::new(Vec::new()));
    let (answers, log) = (Arc::new(Mutex::new(VecDeque::from(answers))), Arc::clone(&requests));
    let answer = move |request: Request<Body>| {
        let uri = request.uri().to_string();
        let next = if uri.ends_with("limit=1") {
            // A request for the current version, which is lower if the script has that next.
            let mut answers = answers.lock().unwrap();
            let went_back = matches!(answers.front(), Some(ScriptedResponse::EarlierVersion));
            went_back.then(|| answers.pop_front());
            let version = if went_back { "3" } else { "100" };
            Some(ScriptedResponse::Text(json!({"metadata": {"resourceVersion": version}, "items": []}).to_string()))
        } else {
            log.lock().unwrap().push(uri);
            answers.lock().unwrap().pop_front()
        };
        async move {
            match next {
                Some(scripted) => Ok::<_, Infallible>(response(scripted)),
                None => std::future::pending().await,
            }
        }
    };
    let client = Client::new(tower::service_fn(answer), "default");
    let config = kube::Config::new("http://127.0.0.1".parse().unwrap());
    let clients = Clients { reading: client.clone(), plain: client, url: String::new(), config, transport: None };
    let options = ReadOptions { once, ..ReadOptions::once(Secrets::Redact) };
    let shared = InformerShared::new(clients, Shard::WHOLE, options, sender, mpsc::unbounded_channel().0);
    let scope = WatchScope { kind: Kind::sample("", "pods", "Pod"), namespace: None };
    (ScopeFollower::new(Arc::new(shared), scope), receiver, requests)
}

#[derive(Debug, PartialEq)]
enum FollowOutcome {
    Done,
    Again(Duration),
    /// It waits for the next event of the server.
    Waits,
}

async fn outcome(follower: &mut ScopeFollower) -> FollowOutcome {
    match timeout(Duration::from_hours(1), follower.list_and_watch()).await {
        Ok(None) => FollowOutcome::Done,
        Ok(Some(after)) => FollowOutcome::Again(after),
        Err(_) => FollowOutcome::Waits,
    }
}

/// Runs a follower against scripted answers; returns the outcome and the changes it sent.
async fn play(once: bool, answers: Vec<ScriptedResponse>) -> (FollowOutcome, Vec<String>) {
    let (mut follower, mut receiver, _) = follower(once, answers);
    let outcome = outcome(&mut follower).await;
    drop(follower);
    let mut changes = Vec::new();
    while let Some(change) = receiver.recv().await {
        changes.push(match change {
            Change::Quiet(_) => continue,
            Change::Listing(_) => "listing".to_owned(),
            Change::Seen(_, object) => format!("seen {}", object.key.name),
            Change::Gone(_, object) => format!("gone {}", object.key.name),
            Change::GoneUnread(_, key) => format!("gone unread {}", key.name),
            Change::Skipped(_, name, _) => format!("skipped {name}"),
            Change::Synced(_) => "synced".to_owned(),
            Change::Unreadable(_, why) => format!("{} {}", why.state.as_str(), why.message),
            Change::Restarted(_, why) => format!("restarted {why}"),
            other => format!("{other:?}"),
        });
    }
    (outcome, changes)
}

#[tokio::test(start_paused = true)]
async fn all_pages_are_read_and_the_watch_starts_at_the_version_of_the_list() {
    let bookmark = event("BOOKMARK", json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "31"}}));
    let answers = vec![
        list(&["a", "b"], "from-c"),
        list(&["c"], ""),
        ScriptedResponse::Lines(vec![event("ADDED", object("d")), bookmark]),
        ScriptedResponse::Lines(vec![event("DELETED", object("a"))]),
    ];
    let (mut follower, mut receiver, requests) = follower(false, answers);
    assert_eq!(outcome(&mut follower).await, FollowOutcome::Waits);
    let requests = requests.lock().unwrap().clone();
    assert_eq!(requests[..2], ["/api/v1/pods?&limit=500", "/api/v1/pods?&limit=500&continue=from-c"]);
    let watched: Vec<_> = requests[2..].iter().filter_map(|url| url.rsplit_once("resourceVersion=")).collect();
    let versions: Vec<_> = watched.iter().map(|(_, version)| *version).collect();
    assert_eq!(versions, ["7", "31", "1"], "{requests:?}");
    assert!(watched.iter().all(|(url, _)| url.contains("allowWatchBookmarks=true")), "{requests:?}");
    let mut names = Vec::new();
    while let Ok(change) = receiver.try_recv() {
        if let Change::Seen(_, object) = change {
            names.push(object.key.name.to_string());
        }
    }
    names.sort();
    assert_eq!(names, ["a", "b", "c", "d"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_reports_that_it_works_when_it_starts_and_at_bookmarks() {
    let bookmark = || event("BOOKMARK", json!({"metadata": {"resourceVersion": "31"}}));
    let second = ScriptedResponse::LinesAndSilence(vec![], Duration::from_mins(5));
    let (mut follower, mut receiver, _) =
        follower(false, vec![list(&["a"], ""), ScriptedResponse::Lines(vec![bookmark(), bookmark()]), second]);
    assert_eq!(outcome(&mut follower).await, FollowOutcome::Waits);
    drop(follower);
    let mut quiet = 0;
    while let Some(change) = receiver.recv().await {
        quiet += usize::from(matches!(change, Change::Quiet(_)));
    }
    assert_eq!(quiet, 4, "two watches, two bookmarks, and a third watch has no answer");
}

#[tokio::test(start_paused = true)]
async fn a_failed_page_fails_the_list() {
    for code in [410, 500] {
        let (outcome, changes) = play(false, vec![list(&["a"], "more"), ScriptedResponse::Refusal(code)]).await;
        assert!(matches!(outcome, FollowOutcome::Again(_)), "{outcome:?}");
        assert!(!changes.contains(&"synced".to_owned()), "{changes:?}");
    }
    let whole = json!({"metadata": {"resourceVersion": "7"}, "items": [object("a"), object("b")]}).to_string();
    for answer in ["<html></html>", "[]", &whole[..whole.len() - 1], &whole[..whole.len() / 2], "{}"] {
        let (outcome, changes) = play(false, vec![ScriptedResponse::Text(answer.to_owned())]).await;
        assert!(matches!(outcome, FollowOutcome::Again(_)), "{answer}: {outcome:?}");
        assert!(!changes.contains(&"synced".to_owned()), "{answer}: {changes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn lists_after_which_no_watch_works_are_repeated_with_growing_delays() {
    let mut answers: Vec<_> = (0..4).flat_map(|_| [list(&[], ""), expired()]).collect();
    // A watch that is silent for a while works.
    answers.push(list(&[], ""));
    answers.push(ScriptedResponse::LinesAndSilence(vec![], PROVEN + Duration::from_secs(1)));
    answers.push(expired());
    let (mut follower, receiver, _) = follower(false, answers);
    let mut waited = Vec::new();
    for _ in 0..4 {
        let FollowOutcome::Again(after) = outcome(&mut follower).await else { panic!("it goes on") };
        waited.push(after.as_millis());
    }
    assert_eq!(waited, [0, 1_000, 2_000, 4_000]);
    assert_eq!(outcome(&mut follower).await, FollowOutcome::Again(Duration::ZERO));
    drop(receiver);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_at_once_is_a_failure_and_one_that_ends_later_is_not() {
    let long = || ScriptedResponse::LinesAndSilence(vec![], Duration::from_mins(5));
    let (_, changes) =
        play(false, vec![list(&[], ""), long(), long(), ScriptedResponse::Lines(vec![event("ADDED", object("a"))])])
            .await;
    assert_eq!(changes, ["listing", "synced", "seen a"]);
    let silent = || ScriptedResponse::TimeOut(Duration::from_secs(90));
    let (_, changes) = play(
        false,
        vec![list(&[], ""), silent(), silent(), ScriptedResponse::Lines(vec![event("ADDED", object("a"))])],
    )
    .await;
    assert_eq!(changes, ["listing", "synced", "seen a"]);
    let (_, changes) = play(false, vec![list(&[], ""), ScriptedResponse::Lines(vec![])]).await;
    assert_eq!(changes, ["listing", "synced", "restarted connection"]);
}

#[tokio::test(start_paused = true)]
async fn invalid_events_are_failures() {
    for line in
        [json!({"type": "NEW", "object": {}}), json!("ADDED"), event("ADDED", json!({"metadata": {"name": "x"}}))]
    {
        let (outcome, changes) = play(false, vec![list(&[], ""), ScriptedResponse::Lines(vec![line.clone()])]).await;
        assert!(matches!(outcome, FollowOutcome::Again(_)), "{line}: {outcome:?}");
        assert_eq!(changes, ["listing", "synced", "restarted connection"], "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn objects_of_a_kind_with_the_other_scope_are_skipped() {
    let mut placeless = object("b");
    placeless["metadata"].as_object_mut().unwrap().remove("namespace");
    let items = json!({"metadata": {"resourceVersion": "7"}, "items": [object("a"), placeless]});
    let (_, changes) = play(false, vec![ScriptedResponse::Text(items.to_string())]).await;
    assert_eq!(changes, ["listing", "seen a", "skipped b", "synced"]);
}

#[tokio::test(start_paused = true)]
async fn the_deletion_of_an_unreadable_object_is_sent() {
    let odd =
        event("DELETED", json!({"metadata": {"name": "odd", "namespace": "n", "uid": [], "resourceVersion": "8"}}));
    let (_, changes) =
        play(false, vec![list(&[], ""), ScriptedResponse::LinesAndSilence(vec![odd], Duration::from_hours(2))]).await;
    assert_eq!(changes, ["listing", "synced", "gone unread odd"]);
}

#[tokio::test(start_paused = true)]
async fn a_failing_watch_and_its_recovery_are_reported() {
    let broken = || ScriptedResponse::Refusal(500);
    let works = ScriptedResponse::LinesAndSilence(
        vec![event("DELETED", object("a")), event("ADDED", object("b"))],
        Duration::from_hours(2),
    );
    let (_, changes) = play(false, vec![list(&[], ""), broken(), broken(), broken(), works]).await;
    let restarted = "restarted server_error";
    let wanted =
        ["listing", "synced", restarted, restarted, "failed watch: code 500", restarted, "synced", "gone a", "seen b"];
    assert_eq!(changes, wanted);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_reported_at_once_and_retried_later() {
    let (outcome, changes) = play(false, vec![ScriptedResponse::Refusal(403)]).await;
    assert!(matches!(outcome, FollowOutcome::Again(after) if after >= Duration::from_secs(5)), "{outcome:?}");
    assert_eq!(changes, ["listing", "forbidden code 403", "restarted forbidden"]);
    let (outcome, changes) = play(true, vec![ScriptedResponse::Refusal(403)]).await;
    assert_eq!(outcome, FollowOutcome::Done);
    assert_eq!(changes, ["listing", "forbidden code 403"]);
}

#[tokio::test(start_paused = true)]
async fn a_scope_whose_lists_expire_repeatedly_counts_as_failed() {
    for once in [false, true] {
        let page = || [list(&["a"], "more"), ScriptedResponse::Refusal(410)];
        let answers =
            [page().to_vec(), vec![ScriptedResponse::Refusal(410), ScriptedResponse::Refusal(410), list(&["a"], "")]]
                .concat();
        let (mut follower, mut receiver, requests) = follower(once, answers);
        let mut outcomes = Vec::new();
        for _ in 0..3 {
            outcomes.push(outcome(&mut follower).await);
        }
        let again = |seconds| FollowOutcome::Again(Duration::from_secs(seconds));
        let last = if once { FollowOutcome::Done } else { again(2) };
        assert_eq!(outcomes, [again(0), again(1), last]);
        outcome(&mut follower).await;
        drop(follower);
        let mut states = Vec::new();
        while let Some(change) = receiver.recv().await {
            match change {
                Change::Unreadable(_, why) => states.push(why.state.as_str()),
                Change::Synced(_) => states.push("synced"),
                _ => {}
            }
        }
        assert_eq!(states, ["failed", "synced"], "it joins as soon as it can be read");
        let requests = requests.lock().unwrap().clone();
        let limited: Vec<_> =
            requests.iter().filter(|url| !url.contains("watch=")).map(|url| url.contains("limit=500")).collect();
        assert_eq!(
            limited,
            [true, true, false, false, false],
            "after an expired list, everything is requested in one page"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_that_expired_before_the_watch_causes_a_new_list() {
    let (outcome, _) = play(false, vec![list(&[], ""), ScriptedResponse::Refusal(410)]).await;
    assert_eq!(outcome, FollowOutcome::Again(Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_went_back_to_an_earlier_state_causes_a_new_list() {
    let silence = || ScriptedResponse::LinesAndSilence(vec![], Duration::from_mins(5));
    for before in
        [silence(), ScriptedResponse::Refusal(500), ScriptedResponse::Lines(vec![event("ADDED", object("b"))])]
    {
        // The version after an event of the test is 1, and there is no lower one.
        let goes_back = !matches!(before, ScriptedResponse::Lines(_));
        let next = if goes_back { vec![silence(), ScriptedResponse::EarlierVersion] } else { vec![silence()] };
        let (outcome, _) = play(false, [vec![list(&["a"], ""), before], next].concat()).await;
        assert_eq!(outcome, if goes_back { FollowOutcome::Again(Duration::ZERO) } else { FollowOutcome::Waits });
    }
    let mut too_large = refusal(504);
    too_large["message"] = json!("Too large resource version: 7, current: 3");
    let (mut follower, _receiver, _) =
        follower(false, vec![list(&["a"], ""), ScriptedResponse::Lines(vec![event("ERROR", too_large)])]);
    assert!(matches!(outcome(&mut follower).await, FollowOutcome::Again(_)), "the version is never reached");
}

#[tokio::test(start_paused = true)]
async fn watches_that_end_at_once_with_an_event_are_not_a_busy_loop() {
    let answers = [vec![list(&[], "")], vec![ScriptedResponse::Lines(vec![event("ADDED", object("a"))]); 20]].concat();
    let (mut follower, _receiver, requests) = follower(false, answers);
    let reading = timeout(Duration::from_secs(10), follower.list_and_watch()).await;
    assert!(reading.is_err());
    let watches = requests.lock().unwrap().iter().filter(|url| url.contains("watch=")).count();
    assert!((9..=12).contains(&watches), "{watches}");
}
