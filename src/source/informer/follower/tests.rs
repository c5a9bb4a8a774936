use futures::stream;
use kube::{Client, core::Status};

use super::*;
use crate::model::object::Kind;

fn received(name: &str) -> Received {
    Received::read(&format!(r#"{{"metadata":{{"name":"{name}","uid":"{name}","resourceVersion":"1"}}}}"#))
}

fn status(code: u16) -> Status {
    Status { code, message: format!("code {code}"), ..Status::default() }
}

fn api_error(code: u16) -> kube::Error {
    kube::Error::Api(status(code).boxed())
}

fn follower(once: bool) -> (Follower, mpsc::Receiver<Change>) {
    let (sender, receiver) = mpsc::channel(100);
    let client = Client::new(
        tower::service_fn(|_: http::Request<kube::client::Body>| async {
            Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("nobody is there"))
        }),
        "default",
    );
    let config = kube::Config::new("http://127.0.0.1".parse().unwrap());
    let clients = Clients { reading: client.clone(), plain: client, url: String::new(), config };
    let shared = Shared::new(clients, Shard::WHOLE, Secrets::Redact, once, sender, mpsc::unbounded_channel().0);
    let scope = WatchScope { kind: Kind::sample("", "pods", "Pod"), namespace: None };
    (Follower::new(Arc::new(shared), scope), receiver)
}

/// Plays a stream to a follower; returns how it ended and what it said.
async fn play(once: bool, events: Vec<watcher::Result<Event<Received>>>) -> (StreamEnd, Vec<String>) {
    let (mut follower, mut receiver) = follower(once);
    let end = follower.stream(stream::iter(events)).await;
    drop(follower);
    let mut said = Vec::new();
    while let Some(change) = receiver.recv().await {
        said.push(match change {
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
    (end, said)
}

#[tokio::test(start_paused = true)]
async fn every_relist_is_compared_and_ends_synced() {
    let events = vec![
        Ok(Event::Init),
        Ok(Event::InitApply(received("a"))),
        Ok(Event::InitApply(received("b"))),
        Ok(Event::InitDone),
        Ok(Event::Apply(received("c"))),
        Ok(Event::Init),
        Ok(Event::InitApply(received("a"))),
        Ok(Event::InitDone),
    ];
    let (_, said) = play(false, events).await;
    let wanted = ["listing", "seen a", "seen b", "synced", "seen c", "listing", "seen a", "synced"];
    assert_eq!(said, wanted);
}

#[tokio::test(start_paused = true)]
async fn lists_after_which_no_watch_works_are_a_loop_and_come_later_and_later() {
    let expired = || {
        let gone = Err(watcher::Error::WatchError(status(410).boxed()));
        stream::iter(vec![Ok(Event::Init), Ok(Event::InitDone), gone])
    };
    let (mut follower, receiver) = follower(false);
    let mut waited = Vec::new();
    for _ in 0..4 {
        let StreamEnd::Again(after) = follower.stream(expired()).await else { panic!("it goes on") };
        waited.push(after.as_millis());
    }
    assert_eq!(waited, [0, 1_000, 2_000, 4_000]);
    // A watch that is silent for a while works.
    let silent = stream::iter(vec![Ok(Event::Init), Ok(Event::InitDone)]).chain(stream::once(async {
        sleep(PROVEN + Duration::from_secs(1)).await;
        Err(watcher::Error::WatchError(status(410).boxed()))
    }));
    let end = follower.stream(silent).await;
    assert!(matches!(end, StreamEnd::Again(Duration::ZERO)), "{end:?}");
    drop(receiver);
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_read_and_is_gone_is_said() {
    let odd = Received::read(r#"{"metadata":{"name":"odd","uid":[]}}"#);
    let (_, said) = play(false, vec![Ok(Event::Init), Ok(Event::InitDone), Ok(Event::Delete(odd))]).await;
    assert_eq!(said, ["listing", "synced", "gone unread odd"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_in_trouble_is_told_and_so_is_its_recovery() {
    let broken = || Err(watcher::Error::WatchStartFailed(api_error(500)));
    let events = vec![
        Ok(Event::Init),
        Ok(Event::InitDone),
        broken(),
        broken(),
        broken(),
        Ok(Event::Delete(received("a"))),
        Ok(Event::Apply(received("b"))),
    ];
    let (_, said) = play(false, events).await;
    let restarted = "restarted server_error";
    let wanted =
        ["listing", "synced", restarted, restarted, "failed watch: code 500", restarted, "synced", "gone a", "seen b"];
    assert_eq!(said, wanted);
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_is_said_at_once_and_tried_again_later() {
    let events = || vec![Ok(Event::Init), Err(watcher::Error::InitialListFailed(api_error(403)))];
    let (end, said) = play(false, events()).await;
    assert!(matches!(end, StreamEnd::Again(after) if after >= Duration::from_secs(5)), "{end:?}");
    assert_eq!(said, ["listing", "forbidden code 403", "restarted forbidden"]);
    let (end, said) = play(true, events()).await;
    assert!(matches!(end, StreamEnd::Done), "{end:?}");
    assert_eq!(said, ["listing", "forbidden code 403"]);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_expired_before_the_watch_is_listed_anew() {
    let events = vec![Ok(Event::Init), Ok(Event::InitDone), Err(watcher::Error::WatchStartFailed(api_error(410)))];
    let (end, _) = play(false, events).await;
    assert!(matches!(end, StreamEnd::Again(Duration::ZERO)), "{end:?}");
}
