//! The delay of Events about changes, whatever else is pending, and backpressure by an overloaded server.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{
    http::{Method, StatusCode, header},
    response::IntoResponse as _,
};
use futures::StreamExt as _;
use k8s_openapi::api::events::v1::Event;
use kaudit_controlplane::{require, shared};
use kube::{
    Api,
    api::{WatchEvent, WatchParams},
};
use tokio::{task::JoinHandle, time::sleep_until};

use super::{PROMPT, Scene, until_evaluated};
use crate::{
    proxy::{Act, Proxy},
    support::{PATIENCE, wait_for},
};

/// Number of objects that are changed, a hundred per second.
const CHANGED: usize = 600;
const CHANGES_PER_SECOND: u32 = 100;
/// Number of objects in violation at the start: more than can be recorded within minutes, at ten Events per second.
const BACKLOG: usize = 1_500;

/// Records the arrival of the first Event about each of `objects` objects whose names begin with `name`.
async fn arrivals(scene: &Scene, name: &'static str, objects: usize) -> JoinHandle<BTreeMap<String, Instant>> {
    let api: Api<Event> = Api::namespaced(scene.client.clone(), &scene.namespace);
    let mut version = api.list(&kube::api::ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut events = api.watch(&WatchParams::default(), &version).await.unwrap().boxed();
    tokio::spawn(async move {
        let mut arrived = BTreeMap::new();
        while arrived.len() < objects {
            // The server ends watches that take too long.
            let Some(event) = events.next().await else {
                events = api.watch(&WatchParams::default(), &version).await.unwrap().boxed();
                continue;
            };
            if let WatchEvent::Added(event) = event.unwrap() {
                version = event.metadata.resource_version.unwrap();
                let about = event.regarding.unwrap().name.unwrap();
                if about.starts_with(name) {
                    arrived.entry(about).or_insert_with(Instant::now);
                }
            }
        }
        arrived
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_changes_are_recorded_promptly_despite_a_backlog() {
    if !require() {
        return;
    }
    let scene = Scene::new(shared().await, "storm").await;
    scene.create((0..BACKLOG).map(|number| format!("old-{number}")), "yes").await;
    scene.create((0..CHANGED).map(|number| format!("new-{number}")), "").await;
    let kaudit = scene.start(&["--events-per-second=10"]).await;
    until_evaluated(&kaudit, BACKLOG + CHANGED).await;
    let arriving = arrivals(&scene, "new-", CHANGED).await;
    let (begin, mut marked) = (Instant::now(), BTreeMap::new());
    for number in 0..CHANGED {
        let due = begin + Duration::from_secs(1) * u32::try_from(number).unwrap() / CHANGES_PER_SECOND;
        sleep_until(due.into()).await;
        let name = format!("new-{number}");
        scene.mark(&name, Some("yes")).await;
        marked.insert(name, Instant::now());
    }
    let arrived = tokio::time::timeout(PROMPT, arriving).await.expect("all are recorded promptly").unwrap();
    let pending = kaudit.metric("kaudit_events_pending").unwrap();
    let mut took: Vec<Duration> =
        marked.iter().map(|(name, marked)| arrived[name].saturating_duration_since(*marked)).collect();
    took.sort();
    let (median, p99) = (took[CHANGED / 2], took[CHANGED * 99 / 100]);
    println!("{CHANGED} changes within {:?}: Events after {median:?} (median), {p99:?} (p99)", begin.elapsed());
    assert!(p99 < PROMPT, "{p99:?}");
    assert!(pending > 0, "the backlog was still there");
    assert_eq!(kaudit.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_overloaded_server_throttles_events_until_it_recovers() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let scene = Scene::new(plane, "busy").await;
    scene.create((0..CHANGED).map(|number| format!("new-{number}")), "").await;
    let (busy, refused) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (is_busy, counted) = (Arc::clone(&busy), Arc::clone(&refused));
    let proxy = Proxy::start(plane, move |request| {
        if request.method == Method::POST && request.uri.path().ends_with("/events") && is_busy.load(Ordering::SeqCst) {
            counted.fetch_add(1, Ordering::SeqCst);
            return Act::Answer(
                (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, "1")], "busy\n").into_response(),
            );
        }
        Act::Pass
    })
    .await;
    let kaudit = scene.start_as(proxy.kubeconfig(), &["--events-per-second=20"]).await;
    until_evaluated(&kaudit, CHANGED).await;
    busy.store(true, Ordering::SeqCst);
    let (arriving, begin) = (arrivals(&scene, "new-", CHANGED).await, Instant::now());
    for number in 0..CHANGED {
        scene.mark(&format!("new-{number}"), Some("yes")).await;
    }
    wait_for("a second refusal", || async { (refused.load(Ordering::SeqCst) > 4).then_some(()) }).await;
    busy.store(false, Ordering::SeqCst);
    let lasted = begin.elapsed();
    let arrived = tokio::time::timeout(PATIENCE * 2, arriving).await.expect("an Event for each change").unwrap();
    let mut times: Vec<Instant> = arrived.into_values().collect();
    times.sort();
    let took = times[CHANGED - 1].duration_since(times[0]);
    println!("{} refusals, then {CHANGED} Events within {took:?}", refused.load(Ordering::SeqCst));
    // A burst of 2,000 is allowed, so without throttling all would arrive at once. Limits of 20 and up to 40 per second
    // were set. A busy machine delays Events and then delivers them together, so only the total is measured.
    assert!(took > Duration::from_secs(8), "{took:?}");
    let refused = f64::from(u32::try_from(refused.load(Ordering::SeqCst)).unwrap());
    assert!(refused < 20.0 + 20.0 * lasted.as_secs_f64(), "{refused} attempts while it was busy for {lasted:?}");
    assert_eq!(kaudit.stop().await, Some(0));
}
