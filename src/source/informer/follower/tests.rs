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

/// Plays a stream to a follower; returns how it ended and what it said.
async fn play(once: bool, events: Vec<watcher::Result<Event<Received>>>) -> (StreamEnd, Vec<String>) {
    let (sender, mut receiver) = mpsc::channel(100);
    let client = Client::new(
        tower::service_fn(|_: http::Request<kube::client::Body>| async {
            Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("nobody is there"))
        }),
        "default",
    );
    let config = kube::Config::new("http://127.0.0.1".parse().unwrap());
    let clients = Clients { reading: client.clone(), plain: client, url: String::new(), config };
    let shared = Shared::new(clients, Shard::WHOLE, Secrets::Redact, once, sender);
    let scope = WatchScope { kind: Kind::sample("", "pods", "Pod"), namespace: None };
    let mut follower = Follower::new(Arc::new(shared), scope);
    let end = follower.stream(stream::iter(events)).await;
    drop(follower);
    let mut said = Vec::new();
    while let Some(change) = receiver.recv().await {
        said.push(match change {
            Change::Listing(_) => "listing".to_owned(),
            Change::Seen(_, object) => format!("seen {}", object.key.name),
            Change::Gone(_, object) => format!("gone {}", object.key.name),
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
        Err(watcher::Error::WatchError(status(410).boxed())),
        Ok(Event::Init),
        Ok(Event::InitApply(received("a"))),
        Ok(Event::InitDone),
    ];
    let (_, said) = play(false, events).await;
    let wanted =
        ["listing", "seen a", "seen b", "synced", "seen c", "restarted expired", "listing", "seen a", "synced"];
    assert_eq!(said, wanted);
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
