//! Changes Pods at a steady rate, and measures the latency of verdicts and Events.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use futures::{AsyncBufReadExt, TryStreamExt};
use http::Request;
use kaudit_test_support::objects::Kind;
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{sleep, sleep_until},
};

use crate::process::LongRun;

/// The number of Pods that are changed in turn, large enough to tell apart the changes of one Pod.
const PODS: usize = 1_000;
/// The longest time until a change is seen everywhere.
const PATIENCE: Duration = Duration::from_secs(30);
/// Marks the Events that the benchmark writes itself.
const PROBE: &str = "bench-probe";
/// The policy that the changes violate and satisfy.
const POLICY: &str = "bench.owner";

/// The times when changes were seen.
#[derive(Debug, Default)]
struct Sightings {
    /// The times in a raw watch, by uid and resourceVersion.
    watched: HashMap<(String, String), Instant>,
    /// The times on kaudit's standard output in order, by uid.
    verdicts: HashMap<String, VecDeque<Instant>>,
    /// The times of Events in order, by uid; for those of the benchmark, by name.
    events: HashMap<String, VecDeque<Instant>>,
}

type Shared = Arc<Mutex<Sightings>>;

/// Latencies in milliseconds, each list sorted.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    pub(crate) changes: usize,
    /// The duration of all changes together, in seconds.
    pub(crate) seconds: f64,
    /// From the response to the patch to the raw watch.
    pub(crate) watch: Vec<f64>,
    /// From the response to the patch to the line on kaudit's standard output.
    pub(crate) verdict: Vec<f64>,
    /// From the response to the patch to the Event in a raw watch.
    pub(crate) event: Vec<f64>,
    /// From the raw watch to the line on kaudit's standard output.
    pub(crate) own_verdict: Vec<f64>,
    /// From the raw watch to the Event in a raw watch.
    pub(crate) own_event: Vec<f64>,
    /// From an Event that the benchmark sends itself to the raw watch.
    pub(crate) post: Vec<f64>,
    pub(crate) verdicts_missing: usize,
    pub(crate) events_missing: usize,
}

/// Returns a quantile of a sorted list.
pub(crate) fn quantile(sorted: &[f64], quantile: f64) -> f64 {
    let index = (sorted.len().saturating_sub(1)) as f64 * quantile;
    sorted.get(index.round() as usize).copied().unwrap_or(f64::NAN)
}

#[derive(Debug, Deserialize)]
struct Seen {
    object: SeenObject,
}

#[derive(Debug, Deserialize)]
struct SeenObject {
    metadata: SeenMetadata,
    #[serde(default)]
    regarding: SeenReference,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SeenMetadata {
    name: Option<String>,
    #[serde(default)]
    resource_version: String,
    uid: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct SeenReference {
    uid: Option<String>,
}

/// A change, and the time of the response.
struct Change {
    uid: String,
    version: String,
    answered: Instant,
}

/// Makes `rate` changes per second, each of which creates or resolves a violation of one Pod.
pub(crate) async fn run(client: &Client, kaudit: &LongRun, rate: u32, seconds: u32) -> Result<Latencies> {
    let pods = pods(client).await?;
    ensure!(!pods.is_empty(), "there are no Pods to change");
    let shared = Shared::default();
    let mut watches = JoinSet::new();
    for path in [Kind::Pod.path(None), "/apis/events.k8s.io/v1/events".to_owned()] {
        // The work of kube's watcher would be part of the measured time.
        let version = resource_version(client, &path).await?;
        watches.spawn(watch(client.clone(), path, version, shared.clone()));
    }
    let total = rate as usize * seconds as usize;
    let (began, mut patches, mut probes) = (Instant::now(), JoinSet::new(), JoinSet::new());
    for number in 0..total {
        sleep_until((began + Duration::from_secs(1) / rate * u32::try_from(number)?).into()).await;
        let (uid, path) = pods[number % pods.len()].clone();
        // Each Pod in turn loses its owner and gets it back.
        let owner = if (number / pods.len()).is_multiple_of(2) { Value::Null } else { "bench".into() };
        patches.spawn(patch(client.clone(), uid, path, owner));
        if number % 10 == 0 {
            probes.spawn(probe(client.clone(), format!("{PROBE}-{}-{number}", kaudit.pid())));
        }
    }
    let mut changes = Vec::with_capacity(total);
    while let Some(change) = patches.join_next().await {
        changes.push(change??);
    }
    let seconds = began.elapsed().as_secs_f64();
    let mut sent = Vec::new();
    while let Some(probe) = probes.join_next().await {
        sent.push(probe??);
    }
    let deadline = Instant::now() + PATIENCE;
    loop {
        take_lines(kaudit, &shared);
        let latencies = match_up(&changes, &sent, &lock(&shared), seconds);
        let all_seen = latencies.watch.len() == changes.len() && latencies.post.len() == sent.len();
        if all_seen && latencies.verdicts_missing == 0 && latencies.events_missing == 0 || Instant::now() > deadline {
            return Ok(latencies);
        }
        sleep(Duration::from_millis(250)).await;
    }
}

/// Returns the uids and paths of Pods that have an owner.
async fn pods(client: &Client) -> Result<Vec<(String, String)>> {
    let uri = format!("{}?limit={PODS}&labelSelector=owner", Kind::Pod.path(None));
    let list: Value = client.request(Request::get(uri).body(Vec::new())?).await?;
    let items = list["items"].as_array().context("no list")?;
    let pod = |pod: &Value| {
        let metadata = |field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_owned();
        (metadata("uid"), format!("{}/{}", Kind::Pod.path(Some(&metadata("namespace"))), metadata("name")))
    };
    Ok(items.iter().map(pod).collect())
}

async fn resource_version(client: &Client, path: &str) -> Result<String> {
    let list: Value = client.request(Request::get(format!("{path}?limit=1")).body(Vec::new())?).await?;
    Ok(list["metadata"]["resourceVersion"].as_str().context("no resourceVersion")?.to_owned())
}

async fn patch(client: Client, uid: String, path: String, owner: Value) -> Result<Change> {
    let body = json!({"metadata": {"labels": {"owner": owner}}});
    let request = Request::patch(format!("{path}?fieldManager=bench"))
        .header("Content-Type", "application/merge-patch+json")
        .body(serde_json::to_vec(&body)?)?;
    let text = client.request_text(request).await?;
    let answered = Instant::now();
    let pod: SeenObject = serde_json::from_str(&text)?;
    Ok(Change { uid, version: pod.metadata.resource_version, answered })
}

/// Writes an Event as kaudit does, to measure its own cost.
async fn probe(client: Client, name: String) -> Result<(String, Instant)> {
    let event = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": name, "namespace": "default"},
        "eventTime": format!("{:.6}", jiff::Timestamp::now()), "type": "Normal", "reason": "Probe", "action": "Probe",
        "reportingController": "example.com/bench", "reportingInstance": "bench",
        "note": "Measures the latency of an Event",
        "regarding": {"apiVersion": "v1", "kind": "Namespace", "name": "default"},
    });
    let sent = Instant::now();
    let request = Request::post("/apis/events.k8s.io/v1/namespaces/default/events")
        .header("Content-Type", "application/json")
        .body(serde_json::to_vec(&event)?)?;
    client.request_text(request).await?;
    Ok((name, sent))
}

async fn watch(client: Client, path: String, version: String, shared: Shared) -> Result<()> {
    let uri = format!("{path}?watch=1&resourceVersion={version}&timeoutSeconds=3600");
    let stream = client.request_stream(Request::get(uri).body(Vec::new())?).await?;
    let mut lines = std::pin::pin!(stream.lines());
    while let Some(line) = lines.try_next().await? {
        let now = Instant::now();
        let Seen { object } = serde_json::from_str(&line)?;
        let SeenMetadata { name, resource_version, uid } = object.metadata;
        let mut sightings = lock(&shared);
        if let Some(uid) = object.regarding.uid {
            sightings.events.entry(uid).or_default().push_back(now);
        } else if let Some(name) = name.filter(|name| name.starts_with(PROBE)) {
            sightings.events.entry(name).or_default().push_back(now);
        } else {
            sightings.watched.insert((uid.unwrap_or_default(), resource_version), now);
        }
    }
    Ok(())
}

/// Records the lines that kaudit has written to its standard output.
fn take_lines(kaudit: &LongRun, shared: &Shared) {
    for (at, line) in kaudit.lines.try_iter() {
        let Ok(line) = serde_json::from_str::<Value>(&line) else { continue };
        let Some(uid) = line["resource"]["uid"].as_str().filter(|_| line["policy"] == POLICY) else { continue };
        lock(shared).verdicts.entry(uid.to_owned()).or_default().push_back(at);
    }
}

fn match_up(changes: &[Change], sent: &[(String, Instant)], seen: &Sightings, seconds: f64) -> Latencies {
    let mut result = Latencies { changes: changes.len(), seconds, ..Latencies::default() };
    // Responses, verdicts and Events of a Pod are in the order of its patches.
    let mut ordered: Vec<_> = changes.iter().collect();
    ordered.sort_by_key(|change| change.answered);
    let (mut verdicts, mut events) = (seen.verdicts.clone(), seen.events.clone());
    for Change { uid, version, answered } in ordered {
        let watched = seen.watched.get(&(uid.clone(), version.clone()));
        let verdict = verdicts.get_mut(uid).and_then(VecDeque::pop_front);
        let event = events.get_mut(uid).and_then(VecDeque::pop_front);
        result.verdicts_missing += usize::from(verdict.is_none());
        result.events_missing += usize::from(event.is_none());
        result.watch.extend(watched.map(|at| milliseconds(*answered, *at)));
        result.verdict.extend(verdict.map(|at| milliseconds(*answered, at)));
        result.event.extend(event.map(|at| milliseconds(*answered, at)));
        result.own_verdict.extend(watched.zip(verdict).map(|(from, to)| milliseconds(*from, to)));
        result.own_event.extend(watched.zip(event).map(|(from, to)| milliseconds(*from, to)));
    }
    for (name, at) in sent {
        result.post.extend(events.get(name).and_then(VecDeque::front).map(|seen| milliseconds(*at, *seen)));
    }
    let Latencies { watch, verdict, event, own_verdict, own_event, post, .. } = &mut result;
    for list in [watch, verdict, event, own_verdict, own_event, post] {
        list.sort_by(f64::total_cmp);
    }
    result
}

/// Returns the milliseconds between two instants; negative if the second is earlier.
fn milliseconds(from: Instant, to: Instant) -> f64 {
    let seconds = to
        .checked_duration_since(from)
        .map_or_else(|| -from.duration_since(to).as_secs_f64(), |duration| duration.as_secs_f64());
    seconds * 1_000.0
}

fn lock(shared: &Shared) -> std::sync::MutexGuard<'_, Sightings> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
