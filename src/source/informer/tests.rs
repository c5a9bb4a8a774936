use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body as Answer;
use futures::stream;
use http::{Request, Response};
use kube::{Client, client::Body};

use super::*;
use crate::source::received::Secrets;

/// A cluster in which reading the first list of Pods panics, in whoever reads it.
fn clients() -> Clients {
    static LISTS: AtomicUsize = AtomicUsize::new(0);
    let answer = |request: Request<Body>| async move {
        let watch = request.uri().query().is_some_and(|query| query.contains("watch="));
        let first = !watch && LISTS.fetch_add(1, Ordering::Relaxed) == 0;
        let list = move || {
            assert!(!first, "it is odd");
            r#"{"apiVersion":"v1","kind":"PodList","metadata":{"resourceVersion":"7"},"items":[]}"#
        };
        let body = stream::once(async move { Ok::<_, std::io::Error>(if watch { "" } else { list() }) });
        Ok::<_, std::io::Error>(Response::new(Answer::from_stream(body)))
    };
    let client = Client::new(tower::service_fn(answer), "default");
    let config = kube::Config::new("http://127.0.0.1".parse().unwrap());
    Clients { reading: client.clone(), plain: client, url: String::new(), config }
}

#[tokio::test(start_paused = true)]
async fn a_kind_whose_reading_panics_is_named_and_read_again() {
    let (sender, mut changes) = mpsc::channel(100);
    let options = ReadOptions { once: false, ..ReadOptions::once(Secrets::Redact) };
    let informer = Informer::new(clients(), Selection::default(), options, sender);
    let kinds = vec![Kind::sample("", "pods", "Pod")];
    let running = tokio::spawn(informer.run(Served { kinds, stale: Vec::new() }));
    let mut said = Vec::new();
    while said.last().is_none_or(|last| last != "synced") {
        said.push(match changes.recv().await.unwrap() {
            Change::Appeared(_) => "appeared".to_owned(),
            Change::Discovered(_) => "discovered".to_owned(),
            Change::Listing(_) => "listing".to_owned(),
            Change::Synced(_) => "synced".to_owned(),
            Change::Unreadable(_, why) => format!("{} {}", why.state.as_str(), why.message),
            other => format!("{other:?}"),
        });
    }
    let (first, rest) = (&said[..3], &said[3..]);
    assert_eq!(first, ["appeared", "discovered", "listing"]);
    assert!(rest[0].starts_with("failed kaudit failed while reading it, which is a bug: "), "{said:?}");
    assert_eq!(rest[1..], ["listing", "synced"]);
    running.abort();
}
