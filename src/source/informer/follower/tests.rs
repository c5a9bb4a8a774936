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

/// What a server answers to one request.
#[derive(Clone)]
enum Said {
    Refusal(u16),
    Text(String),
    /// Lines, and then the end.
    Lines(Vec<Value>),
    /// Lines, and then nothing for so long, and then the end.
    LinesAndSilence(Vec<Value>, Duration),
    /// That the present version is before the one of the list.
    EarlierVersion,
    /// Nothing for so long that the connection is given up.
    TimeOut(Duration),
}

fn object(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "n", "uid": name, "resourceVersion": "1"}})
}

fn list(names: &[&str], from: &str) -> Said {
    let items: Vec<_> = names.iter().map(|name| object(name)).collect();
    Said::Text(json!({"metadata": {"resourceVersion": "7", "continue": from}, "items": items}).to_string())
}

fn event(what: &str, object: impl Into<Value>) -> Value {
    let object = object.into();
    json!({"type": what, "object": object})
}

fn refusal(code: u16) -> Value {
    json!({"kind": "Status", "code": code, "message": format!("code {code}"), "status": "Failure", "reason": ""})
}

fn expired() -> Said {
    Said::Lines(vec![event("ERROR", refusal(410))])
}

fn response(said: Said) -> Response<Answer> {
    let lines =
        |lines: Vec<Value>| stream::iter(lines.into_iter().map(|line| Ok::<_, Infallible>(format!("{line}\n"))));
    match said {
        Said::Refusal(code) => Response::builder().status(code).body(Answer::from(refusal(code).to_string())).unwrap(),
        Said::Text(text) => Response::new(Answer::from(text)),
        Said::EarlierVersion => panic!("no request for the present version came"),
        Said::Lines(all) => Response::new(Answer::from_stream(lines(all))),
        Said::TimeOut(after) => {
            let end = stream::once(sleep(after))
                .map(|()| Err::<String, _>(std::io::Error::from(std::io::ErrorKind::TimedOut)));
            Response::new(Answer::from_stream(end))
        }
        Said::LinesAndSilence(all, silence) => {
            let rest = stream::once(sleep(silence)).filter_map(async |()| None);
            Response::new(Answer::from_stream(lines(all).chain(rest)))
        }
    }
}

/// A follower of Pods, whose server gives these answers one after the other, and after them none; what it says, and what
/// it asked for.
fn follower(once: bool, answers: Vec<Said>) -> (Follower, mpsc::Receiver<Change>, Arc<Mutex<Vec<String>>>) {
    let (sender, receiver) = mpsc::channel(100);
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (answers, log) = (Arc::new(Mutex::new(VecDeque::from(answers))), Arc::clone(&asked));
    let answer = move |request: Request<Body>| {
        let uri = request.uri().to_string();
        let next = if uri.ends_with("limit=1") {
            // A request for the present version, which has gone back where a test says so next.
            let mut answers = answers.lock().unwrap();
            let went_back = matches!(answers.front(), Some(Said::EarlierVersion));
            went_back.then(|| answers.pop_front());
            let version = if went_back { "3" } else { "100" };
            Some(Said::Text(json!({"metadata": {"resourceVersion": version}, "items": []}).to_string()))
        } else {
            log.lock().unwrap().push(uri);
            answers.lock().unwrap().pop_front()
        };
        async move {
            match next {
                Some(said) => Ok::<_, Infallible>(response(said)),
                None => std::future::pending().await,
            }
        }
    };
    let client = Client::new(tower::service_fn(answer), "default");
    let config = kube::Config::new("http://127.0.0.1".parse().unwrap());
    let clients = Clients { reading: client.clone(), plain: client, url: String::new(), config, transport: None };
    let options = ReadOptions { once, ..ReadOptions::once(Secrets::Redact) };
    let shared = Shared::new(clients, Shard::WHOLE, options, sender, mpsc::unbounded_channel().0);
    let scope = WatchScope { kind: Kind::sample("", "pods", "Pod"), namespace: None };
    (Follower::new(Arc::new(shared), scope), receiver, asked)
}

#[derive(Debug, PartialEq)]
enum Outcome {
    Done,
    Again(Duration),
    /// It waits for what the server says next.
    Waits,
}

async fn outcome(follower: &mut Follower) -> Outcome {
    match timeout(Duration::from_hours(1), follower.list_and_watch()).await {
        Ok(None) => Outcome::Done,
        Ok(Some(after)) => Outcome::Again(after),
        Err(_) => Outcome::Waits,
    }
}

/// Has a follower read what a server answers; returns how that ended and what it said.
async fn play(once: bool, answers: Vec<Said>) -> (Outcome, Vec<String>) {
    let (mut follower, mut receiver, _) = follower(once, answers);
    let outcome = outcome(&mut follower).await;
    drop(follower);
    let mut said = Vec::new();
    while let Some(change) = receiver.recv().await {
        said.push(match change {
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
    (outcome, said)
}

#[tokio::test(start_paused = true)]
async fn pages_are_read_to_the_last_and_the_watch_begins_where_the_list_was_made() {
    let bookmark = event("BOOKMARK", json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "31"}}));
    let answers = vec![
        list(&["a", "b"], "from-c"),
        list(&["c"], ""),
        Said::Lines(vec![event("ADDED", object("d")), bookmark]),
        Said::Lines(vec![event("DELETED", object("a"))]),
    ];
    let (mut follower, mut receiver, asked) = follower(false, answers);
    assert_eq!(outcome(&mut follower).await, Outcome::Waits);
    let asked = asked.lock().unwrap().clone();
    assert_eq!(asked[..2], ["/api/v1/pods?&limit=500", "/api/v1/pods?&limit=500&continue=from-c"]);
    let watched: Vec<_> = asked[2..].iter().filter_map(|url| url.rsplit_once("resourceVersion=")).collect();
    let versions: Vec<_> = watched.iter().map(|(_, version)| *version).collect();
    assert_eq!(versions, ["7", "31", "1"], "{asked:?}");
    assert!(watched.iter().all(|(url, _)| url.contains("allowWatchBookmarks=true")), "{asked:?}");
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
async fn a_watch_says_that_it_works_when_it_begins_and_at_bookmarks() {
    let bookmark = || event("BOOKMARK", json!({"metadata": {"resourceVersion": "31"}}));
    let second = Said::LinesAndSilence(vec![], Duration::from_mins(5));
    let (mut follower, mut receiver, _) =
        follower(false, vec![list(&["a"], ""), Said::Lines(vec![bookmark(), bookmark()]), second]);
    assert_eq!(outcome(&mut follower).await, Outcome::Waits);
    drop(follower);
    let mut quiet = 0;
    while let Some(change) = receiver.recv().await {
        quiet += usize::from(matches!(change, Change::Quiet(_)));
    }
    assert_eq!(quiet, 4, "two watches, two bookmarks, and a third watch has no answer");
}

#[tokio::test(start_paused = true)]
async fn a_page_that_fails_costs_the_list() {
    for code in [410, 500] {
        let (outcome, said) = play(false, vec![list(&["a"], "more"), Said::Refusal(code)]).await;
        assert!(matches!(outcome, Outcome::Again(_)), "{outcome:?}");
        assert!(!said.contains(&"synced".to_owned()), "{said:?}");
    }
    let whole = json!({"metadata": {"resourceVersion": "7"}, "items": [object("a"), object("b")]}).to_string();
    for answer in ["<html></html>", "[]", &whole[..whole.len() - 1], &whole[..whole.len() / 2], "{}"] {
        let (outcome, said) = play(false, vec![Said::Text(answer.to_owned())]).await;
        assert!(matches!(outcome, Outcome::Again(_)), "{answer}: {outcome:?}");
        assert!(!said.contains(&"synced".to_owned()), "{answer}: {said:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn lists_after_which_no_watch_works_are_a_loop_and_come_later_and_later() {
    let mut answers: Vec<_> = (0..4).flat_map(|_| [list(&[], ""), expired()]).collect();
    // A watch that is silent for a while works.
    answers.push(list(&[], ""));
    answers.push(Said::LinesAndSilence(vec![], PROVEN + Duration::from_secs(1)));
    answers.push(expired());
    let (mut follower, receiver, _) = follower(false, answers);
    let mut waited = Vec::new();
    for _ in 0..4 {
        let Outcome::Again(after) = outcome(&mut follower).await else { panic!("it goes on") };
        waited.push(after.as_millis());
    }
    assert_eq!(waited, [0, 1_000, 2_000, 4_000]);
    assert_eq!(outcome(&mut follower).await, Outcome::Again(Duration::ZERO));
    drop(receiver);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_at_once_has_failed_and_one_that_ends_later_has_not() {
    let long = || Said::LinesAndSilence(vec![], Duration::from_mins(5));
    let (_, said) =
        play(false, vec![list(&[], ""), long(), long(), Said::Lines(vec![event("ADDED", object("a"))])]).await;
    assert_eq!(said, ["listing", "synced", "seen a"]);
    let silent = || Said::TimeOut(Duration::from_secs(90));
    let (_, said) =
        play(false, vec![list(&[], ""), silent(), silent(), Said::Lines(vec![event("ADDED", object("a"))])]).await;
    assert_eq!(said, ["listing", "synced", "seen a"]);
    let (_, said) = play(false, vec![list(&[], ""), Said::Lines(vec![])]).await;
    assert_eq!(said, ["listing", "synced", "restarted connection"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_event_is_not_passed_over() {
    for line in
        [json!({"type": "NEW", "object": {}}), json!("ADDED"), event("ADDED", json!({"metadata": {"name": "x"}}))]
    {
        let (outcome, said) = play(false, vec![list(&[], ""), Said::Lines(vec![line.clone()])]).await;
        assert!(matches!(outcome, Outcome::Again(_)), "{line}: {outcome:?}");
        assert_eq!(said, ["listing", "synced", "restarted connection"], "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn objects_of_a_kind_with_the_other_scope_are_not_taken() {
    let mut placeless = object("b");
    placeless["metadata"].as_object_mut().unwrap().remove("namespace");
    let items = json!({"metadata": {"resourceVersion": "7"}, "items": [object("a"), placeless]});
    let (_, said) = play(false, vec![Said::Text(items.to_string())]).await;
    assert_eq!(said, ["listing", "seen a", "skipped b", "synced"]);
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_read_and_is_gone_is_said() {
    let odd =
        event("DELETED", json!({"metadata": {"name": "odd", "namespace": "n", "uid": [], "resourceVersion": "8"}}));
    let (_, said) = play(false, vec![list(&[], ""), Said::LinesAndSilence(vec![odd], Duration::from_hours(2))]).await;
    assert_eq!(said, ["listing", "synced", "gone unread odd"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_in_trouble_is_told_and_so_is_its_recovery() {
    let broken = || Said::Refusal(500);
    let works = Said::LinesAndSilence(
        vec![event("DELETED", object("a")), event("ADDED", object("b"))],
        Duration::from_hours(2),
    );
    let (_, said) = play(false, vec![list(&[], ""), broken(), broken(), broken(), works]).await;
    let restarted = "restarted server_error";
    let wanted =
        ["listing", "synced", restarted, restarted, "failed watch: code 500", restarted, "synced", "gone a", "seen b"];
    assert_eq!(said, wanted);
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_is_said_at_once_and_tried_again_later() {
    let (outcome, said) = play(false, vec![Said::Refusal(403)]).await;
    assert!(matches!(outcome, Outcome::Again(after) if after >= Duration::from_secs(5)), "{outcome:?}");
    assert_eq!(said, ["listing", "forbidden code 403", "restarted forbidden"]);
    let (outcome, said) = play(true, vec![Said::Refusal(403)]).await;
    assert_eq!(outcome, Outcome::Done);
    assert_eq!(said, ["listing", "forbidden code 403"]);
}

#[tokio::test(start_paused = true)]
async fn lists_that_expire_again_and_again_have_failed() {
    for once in [false, true] {
        let page = || [list(&["a"], "more"), Said::Refusal(410)];
        let answers = [page().to_vec(), vec![Said::Refusal(410), Said::Refusal(410), list(&["a"], "")]].concat();
        let (mut follower, mut receiver, asked) = follower(once, answers);
        let mut outcomes = Vec::new();
        for _ in 0..3 {
            outcomes.push(outcome(&mut follower).await);
        }
        let again = |seconds| Outcome::Again(Duration::from_secs(seconds));
        let last = if once { Outcome::Done } else { again(2) };
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
        assert_eq!(states, ["failed", "synced"], "it joins when it can be read");
        let asked = asked.lock().unwrap().clone();
        let limited: Vec<_> =
            asked.iter().filter(|url| !url.contains("watch=")).map(|url| url.contains("limit=500")).collect();
        assert_eq!(limited, [true, true, false, false, false], "after one that expired, all is requested at once");
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_that_expired_before_the_watch_is_listed_anew() {
    let (outcome, _) = play(false, vec![list(&[], ""), Said::Refusal(410)]).await;
    assert_eq!(outcome, Outcome::Again(Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_has_gone_back_to_an_earlier_state_is_listed_anew() {
    let silence = || Said::LinesAndSilence(vec![], Duration::from_mins(5));
    for before in [silence(), Said::Refusal(500), Said::Lines(vec![event("ADDED", object("b"))])] {
        // The version after an event of the test is 1, which no server can go back behind.
        let goes_back = !matches!(before, Said::Lines(_));
        let next = if goes_back { vec![silence(), Said::EarlierVersion] } else { vec![silence()] };
        let (outcome, _) = play(false, [vec![list(&["a"], ""), before], next].concat()).await;
        assert_eq!(outcome, if goes_back { Outcome::Again(Duration::ZERO) } else { Outcome::Waits });
    }
    let mut too_large = refusal(504);
    too_large["message"] = json!("Too large resource version: 7, current: 3");
    let (mut follower, _receiver, _) =
        follower(false, vec![list(&["a"], ""), Said::Lines(vec![event("ERROR", too_large)])]);
    assert!(matches!(outcome(&mut follower).await, Outcome::Again(_)), "the version is never reached");
}

#[tokio::test(start_paused = true)]
async fn watches_that_end_at_once_with_an_event_are_no_busy_loop() {
    let answers = [vec![list(&[], "")], vec![Said::Lines(vec![event("ADDED", object("a"))]); 20]].concat();
    let (mut follower, _receiver, asked) = follower(false, answers);
    let reading = timeout(Duration::from_secs(10), follower.list_and_watch()).await;
    assert!(reading.is_err());
    let watches = asked.lock().unwrap().iter().filter(|url| url.contains("watch=")).count();
    assert!((9..=12).contains(&watches), "{watches}");
}
