use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body as Answer;
use futures::stream;
use http::{Request, Response};
use kube::{Client, client::Body};

use super::*;
use crate::source::received::Secrets;

/// Returns a cluster in which reading the first list of Pods panics.
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
    Clients { reading: client.clone(), plain: client, url: String::new(), config, transport: None }
}

#[tokio::test(start_paused = true)]
async fn a_kind_whose_reader_panics_is_reported_and_read_again() {
    let (sender, mut changes) = mpsc::channel(100);
    let options = ReadOptions { once: false, ..ReadOptions::once(Secrets::Redact) };
    let informer = Informer::new(clients(), Selection::default(), options, sender);
    let kinds = vec![Kind::sample("", "pods", "Pod")];
    let running = tokio::spawn(informer.run(Served { kinds, ..Served::default() }));
    let mut received = Vec::new();
    while received.last().is_none_or(|last| last != "synced") {
        received.push(match changes.recv().await.unwrap() {
            Change::Appeared(_) => "appeared".to_owned(),
            Change::Discovered(_) => "discovered".to_owned(),
            Change::Listing(_) => "listing".to_owned(),
            Change::Synced(_) => "synced".to_owned(),
            Change::Unreadable(_, why) => format!("{} {}", why.state.as_str(), why.message),
            other => format!("{other:?}"),
        });
    }
    let (first, rest) = (&received[..3], &received[3..]);
    assert_eq!(first, ["appeared", "discovered", "listing"]);
    assert!(
        rest[0].starts_with("failed kaudit panicked while reading this kind; please report this bug: "),
        "{received:?}"
    );
    assert_eq!(rest[1..], ["listing", "synced"]);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn kinds_of_an_earlier_run_may_be_missing_for_as_long_as_others() {
    let believed_after = async |once| {
        let (sender, mut changes) = mpsc::channel(100);
        let options = ReadOptions { once, ..ReadOptions::once(Secrets::Redact) };
        let mut informer = Informer::new(silent(), Selection::default(), options, sender);
        let started = Instant::now();
        loop {
            informer.follow_discovery(pass(&[], &[])).await;
            if let Some(Change::Discovered(discovered)) = changes.recv().await
                && !discovered.may_lack_former_kinds
            {
                return started.elapsed();
            }
            sleep(Duration::from_secs(1)).await;
        }
    };
    assert_eq!(believed_after(true).await, SETTLED);
    assert_eq!(believed_after(false).await, ABSENT);
}

#[tokio::test(start_paused = true)]
async fn an_excluded_kind_stays_excluded_although_some_passes_lack_it() {
    let (sender, mut changes) = mpsc::channel(100);
    let selection = Selection { exclude: vec!["carts.shop.example.com".parse().unwrap()], ..Selection::default() };
    let mut informer = Informer::new(silent(), selection, ReadOptions::once(Secrets::Redact), sender);
    let mut excluded = async |kinds: &[&str]| {
        informer.follow_discovery(pass(kinds, &[])).await;
        let Some(Change::Discovered(found)) = changes.recv().await else { panic!() };
        found.excluded.into_iter().map(|(kind, _)| kind.version.clone()).collect::<Vec<_>>()
    };
    assert_eq!(excluded(&["v1/carts"]).await, ["v1"]);
    assert_eq!(excluded(&[]).await, ["v1"]);
    assert_eq!(excluded(&["v2/carts"]).await, ["v2"]);
    sleep(ABSENT).await;
    assert_eq!(excluded(&[]).await, [""; 0]);
}

/// Returns a cluster that never answers.
fn silent() -> Clients {
    let answer = |_: Request<Body>| std::future::pending::<Result<Response<Answer>, std::io::Error>>();
    let client = Client::new(tower::service_fn(answer), "default");
    let config = kube::Config::new("http://127.0.0.1".parse().unwrap());
    Clients { reading: client.clone(), plain: client, url: String::new(), config, transport: None }
}

/// Returns a pass of discovery for `shop.example.com`: kinds as `VERSION/PLURAL`, the preferred version first, and
/// stale versions.
fn pass(kinds: &[&str], stale: &[&str]) -> Served {
    let mut served = Served::default();
    for (version, plural) in kinds.iter().filter_map(|kind| kind.split_once('/')) {
        let mut kind = Kind::sample("shop.example.com", plural, plural);
        Arc::make_mut(&mut kind).version = version.to_owned();
        if !served.kinds.iter().any(|known| known.plural == plural) {
            served.kinds.push(Arc::clone(&kind));
        }
        served.by_version.entry((kind.group.clone(), version.to_owned())).or_default().push(kind);
    }
    let group = "shop.example.com".to_owned();
    let stale = stale.iter().map(|version| (group.clone(), (*version).to_owned()));
    served.stale = stale.map(|(group, version)| Unserved { group, version, message: "down".to_owned() }).collect();
    served
}

/// Returns the versions that are unserved after the last of these passes.
async fn unserved(exclude: &str, passes: Vec<Served>) -> Vec<String> {
    let (sender, mut changes) = mpsc::channel(100);
    let exclude = exclude.split_whitespace().map(|pattern| pattern.parse().unwrap()).collect();
    let selection = Selection { exclude, ..Selection::default() };
    let mut informer = Informer::new(silent(), selection, ReadOptions::once(Secrets::Redact), sender);
    for served in passes {
        informer.follow_discovery(served).await;
    }
    drop(informer);
    let mut found = Vec::new();
    while let Some(change) = changes.recv().await {
        if let Change::Discovered(discovered) = change {
            found = discovered.unserved.into_iter().map(|unserved| unserved.version).collect();
        }
    }
    found
}

#[tokio::test(start_paused = true)]
async fn a_stale_version_is_unserved_unless_its_kinds_are_followed() {
    let both = ["v1/carts", "v1alpha1/carts", "v1alpha1/quotes"];
    let down = || pass(&["v1/carts"], &["v1alpha1"]);
    assert_eq!(unserved("", vec![down()]).await, ["v1alpha1"], "its kinds are not known");
    assert_eq!(unserved("", vec![down(), down()]).await, ["v1alpha1"], "also not in the second pass");
    assert_eq!(unserved("", vec![pass(&[], &["v1", "v1alpha1"])]).await, ["v1", "v1alpha1"]);
    assert!(
        unserved("", vec![pass(&both, &["v1alpha1"])]).await.is_empty(),
        "all are followed, and reading some fails"
    );
    assert!(unserved("", vec![pass(&both, &[]), down()]).await.is_empty(), "all were followed before");
    assert!(unserved("", vec![pass(&both, &[]), down(), down()]).await.is_empty(), "and are still");
    assert!(unserved("quotes", vec![pass(&both, &[]), down()]).await.is_empty(), "quotes is not audited");
    assert!(unserved("*.shop.example.com", vec![down()]).await.is_empty(), "nothing of the group is audited");
    let same = ["v1/carts", "v1alpha1/carts"];
    assert!(unserved("", vec![pass(&same, &[]), down()]).await.is_empty(), "v1 has all kinds of v1alpha1");
    let gone = pass(&["v1/carts"], &[]);
    assert_eq!(unserved("", vec![pass(&same, &[]), gone, down()]).await, ["v1alpha1"], "it may have other kinds now");
}
