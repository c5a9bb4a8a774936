//! The invariants of a quiet cluster, whatever happened before: the live verdicts equal those of a fresh audit, and the
//! Events have recorded each violation alternately as new and resolved.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams},
    core::GroupVersionKind,
};
use serde_json::Value;

use crate::support::{PATIENCE, Running, run, wait_for};

/// Polling interval of the live verdicts; also the precision of convergence times.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Messages of one violation in the versions of a policy. All are treated as the first, because a changed message of an
/// open violation causes no Event.
pub(crate) const WORDS: [&str; 3] = ["bad is", "bad was", "bad be"];

/// The Events of each violation, by uid and note, in order: true for new, false for resolved.
pub(crate) type ViolationEvents = BTreeMap<(String, String), Vec<bool>>;

/// The expected order of Events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventOrder {
    /// Alternately new and resolved; the last one matches the current state.
    ByTurns,
    /// The same, but with at most this many repetitions: an Event that is in flight when kaudit is killed arrives after
    /// the next run has read the existing ones.
    ButFor(usize),
    /// New as often as resolved, in an order that their times do not determine.
    AsOften,
    /// Some are lost and counted, because the server refused them.
    Lossy,
}

/// The settings of the comparison.
pub(crate) struct Truth {
    /// A kubeconfig without injected faults.
    pub(crate) kubeconfig: PathBuf,
    pub(crate) client: Client,
    /// Policies and scope, for the live run and for fresh audits.
    pub(crate) arguments: Vec<String>,
    /// The namespaces whose Events are checked; all if empty.
    pub(crate) namespaces: Vec<String>,
    pub(crate) event_order: EventOrder,
    /// Whether reports are written.
    pub(crate) reports: bool,
}

impl Truth {
    /// Waits until all invariants hold. Returns how long after `since` the live verdicts were right.
    pub(crate) async fn converged(&self, kaudit: &Running, since: Instant) -> Duration {
        // A token file is read again every minute.
        let deadline = Instant::now() + PATIENCE * 2;
        let mut history = Vec::new();
        let fresh = loop {
            let fresh = tokio::select! {
                fresh = self.fresh() => fresh,
                () = watch(kaudit, &mut history) => continue,
            };
            // Late evaluations get some time before the next fresh audit.
            let moment = Instant::now() + Duration::from_secs(3);
            while history.last().is_none_or(|(_, live)| *live != verdicts(&fresh)) && Instant::now() < moment {
                look(kaudit, &mut history).await;
            }
            if history.last().is_some_and(|(_, live)| *live == verdicts(&fresh)) {
                break fresh;
            }
            assert!(Instant::now() < deadline, "no convergence:\n{}", difference(&kaudit.status(), &fresh));
        };
        let at = history.last().map_or(since, |(at, _)| *at);
        if self.event_order != EventOrder::Lossy {
            let open = open_violations(&fresh, &self.namespaces);
            let truth =
                async || check_events(&violation_events(&self.client, &self.namespaces).await, &open, self.event_order);
            until_true("Events", deadline, truth).await;
        }
        if self.reports {
            until_true("reports", deadline, async || check_reports(&reported(&self.client).await, &fresh)).await;
        }
        at.saturating_duration_since(since)
    }

    /// Waits until the gate is open. Until then nothing may be evaluated, and no Event may be created; Events of a run
    /// that was just killed may still arrive, with earlier times.
    pub(crate) async fn gate(&self, kaudit: &Running) {
        let begin = Timestamp::now();
        let made = async || {
            let is_new = |event: &&Event| event.event_time.as_ref().is_some_and(|time| time.0 >= begin);
            let is_about_violation =
                |event: &&Event| matches!(event.reason.as_deref(), Some("PolicyViolation" | "PolicyResolved"));
            let events = written_events(&self.client, &self.namespaces).await;
            events.iter().filter(is_new).filter(is_about_violation).count()
        };
        // More than zero if the clock of an earlier run was fast.
        let made_before = made().await;
        loop_until_open(kaudit, async || {
            let made = made().await;
            // The gate may have opened meanwhile.
            if kaudit.metric("kaudit_gate_open") == Some(0) {
                assert_eq!(made, made_before, "Events were made before the gate opened");
            }
        })
        .await;
    }

    /// Returns the result of a fresh audit.
    pub(crate) async fn fresh(&self) -> Value {
        let arguments = self.arguments.iter().map(String::as_str);
        let arguments: Vec<&str> = ["check", "--once", "-o", "json"].into_iter().chain(arguments).collect();
        let fresh = run(&self.kubeconfig, &arguments).await;
        assert!(matches!(fresh.code, Some(0 | 1)), "{:?}: {}\n{}", fresh.code, fresh.stderr, fresh.stdout);
        fresh.json()
    }
}

/// Waits until the records are right, which may take longer than the evaluation.
async fn until_true(what: &str, deadline: Instant, wrong: impl AsyncFn() -> Result<(), String>) {
    while let Err(difference_found) = wrong().await {
        assert!(Instant::now() < deadline, "{what}: {difference_found}");
        tokio::time::sleep(LOOK_EVERY * 4).await;
    }
}

async fn loop_until_open(kaudit: &Running, still_shut: impl AsyncFn()) {
    wait_for("the gate", || async {
        // Consistent: both are in one response.
        let metrics = kaudit.get("/metrics")?;
        let value = |name: &str| metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
        if value("kaudit_gate_open ").is_some_and(|open| open > 0.5) {
            return Some(());
        }
        let judged = value("kaudit_evaluations_total ").unwrap_or_default();
        assert!(judged < 1.0, "{judged} judged before the gate opened");
        still_shut().await;
        None
    })
    .await;
}

/// Returns the open results and the summary.
fn verdicts(result: &Value) -> (Value, Value) {
    (result["results"].clone(), result["summary"].clone())
}

/// The live verdicts over time.
type History = Vec<(Instant, (Value, Value))>;

async fn look(kaudit: &Running, history: &mut History) {
    if let Some(status) = kaudit.get("/status") {
        let live = verdicts(&serde_json::from_str(&status).unwrap());
        if history.last().is_none_or(|(_, last)| *last != live) {
            history.push((Instant::now(), live));
        }
    }
    tokio::time::sleep(LOOK_EVERY).await;
}

async fn watch(kaudit: &Running, history: &mut History) {
    loop {
        look(kaudit, history).await;
    }
}

/// Describes the differences between two results.
fn difference(live: &Value, fresh: &Value) -> String {
    let entries = |result: &Value| -> BTreeSet<String> {
        result["results"].as_array().into_iter().flatten().map(ToString::to_string).collect()
    };
    let (live_entries, fresh_entries) = (entries(live), entries(fresh));
    let first = |only: Vec<&String>| only.into_iter().take(5).cloned().collect::<Vec<_>>().join("\n  ");
    format!(
        "live {}\nfresh {}\nonly live:\n  {}\nonly fresh:\n  {}\nincomplete: {}",
        live["summary"],
        fresh["summary"],
        first(live_entries.difference(&fresh_entries).collect()),
        first(fresh_entries.difference(&live_entries).collect()),
        live["coverage"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|kind| kind["message"] != "")
            .map(ToString::to_string)
            .collect::<String>(),
    )
}

/// Reads kaudit's Events in these namespaces, or in all.
async fn written_events(client: &Client, namespaces: &[String]) -> Vec<Event> {
    let mut events = Vec::new();
    let apis: Vec<Api<Event>> = if namespaces.is_empty() {
        vec![Api::all(client.clone())]
    } else {
        namespaces.iter().map(|namespace| Api::namespaced(client.clone(), namespace)).collect()
    };
    for api in apis {
        let mut page = ListParams::default().limit(500);
        loop {
            let list = api.list(&page).await.unwrap();
            let next = list.metadata.continue_.clone().filter(|token| !token.is_empty());
            events.extend(list.items);
            match next {
                Some(token) => page = ListParams::default().limit(500).continue_token(&token),
                None => break,
            }
        }
    }
    events.retain(|event| event.reporting_controller.as_deref() == Some("kaudit"));
    events
}

/// Returns kaudit's Events by violation, in these namespaces or in all.
pub(crate) async fn violation_events(client: &Client, namespaces: &[String]) -> ViolationEvents {
    let mut events = written_events(client, namespaces).await;
    // If a reload coincides with a change of the object, the old message is resolved at the same time at which the new
    // one appears.
    let begins = |event: &Event| event.reason.as_deref() == Some("PolicyViolation");
    events.sort_by_key(|event| (event.event_time.as_ref().map(|time| time.0), begins(event)));
    let mut reported = ViolationEvents::new();
    for event in events {
        let appeared = match event.reason.as_deref().unwrap() {
            "PolicyViolation" => true,
            "PolicyResolved" => false,
            "PolicyRefused" | "EventsHeldBack" | "EventsDropped" => continue,
            other => panic!("an Event with the reason {other}: {event:?}"),
        };
        let regarding = event.regarding.unwrap();
        let note = event.note.unwrap();
        assert_eq!(note.starts_with(RESOLVED), !appeared, "{note}");
        let note = note.strip_prefix(RESOLVED).unwrap_or(&note).to_owned();
        reported.entry((regarding.uid.unwrap(), in_first_words(note))).or_default().push(appeared);
    }
    reported
}

/// Reads all results of the reports, without times.
async fn reported(client: &Client) -> Vec<String> {
    let mut results = Vec::new();
    for kind in ["Report", "ClusterReport"] {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("openreports.io", "v1alpha1", kind));
        let reports = Api::<DynamicObject>::all_with(client.clone(), &resource).list(&ListParams::default()).await;
        for report in reports.unwrap() {
            let entries = report.data["results"].as_array().cloned().unwrap_or_default();
            results.extend(entries.iter().map(|entry| recorded(entry, &entry["resources"][0])));
        }
    }
    results.sort();
    results
}

/// Checks that reports contain exactly the results of an audit that no owner covers.
fn check_reports(reported: &[String], result: &Value) -> Result<(), String> {
    let listed = |entry: &&Value| entry["result"] != "skip" && !is_covered(entry);
    let entries = result["results"].as_array().unwrap().iter().filter(listed);
    let mut open: Vec<String> = entries.map(|entry| recorded(entry, &entry["resource"])).collect();
    open.sort();
    let missing = open.iter().find(|entry| !reported.contains(entry));
    let surplus = reported.iter().find(|entry| !open.contains(entry));
    let numbers = (reported.len(), open.len());
    if reported == open { Ok(()) } else { Err(format!("{numbers:?}; missing {missing:?}, too many {surplus:?}")) }
}

/// Returns the part of a result that reports and audits share.
fn recorded(entry: &Value, resource: &Value) -> String {
    format!("{} {} {}/{}: {}", resource["uid"], entry["result"], entry["policy"], entry["rule"], entry["message"])
}

/// Whether an owner covers a result.
fn is_covered(entry: &Value) -> bool {
    !entry["coveredBy"].is_null()
}

/// The open violations, by uid and note, and whether they must have an Event: if an owner covers them, it is optional.
pub(crate) type OpenViolations = BTreeMap<(String, String), bool>;

/// Returns the open violations of a result in these namespaces, or in all.
pub(crate) fn open_violations(result: &Value, namespaces: &[String]) -> OpenViolations {
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap().to_owned();
    let note = |entry: &Value| {
        let path = format!("{}/{}", text(entry, "policy"), text(entry, "rule"));
        let heading = [entry["severity"].as_str(), entry["ruleId"].as_str(), entry["title"].as_str().or(Some(&path))];
        let heading: Vec<_> = heading.into_iter().flatten().collect();
        format!("{}: {}", heading.join(" "), text(entry, "message"))
    };
    let there = |entry: &&Value| {
        namespaces.is_empty() || namespaces.iter().any(|namespace| entry["resource"]["namespace"] == **namespace)
    };
    let entries = result["results"].as_array().unwrap().iter().filter(there);
    let about = |entry: &Value| (text(&entry["resource"], "uid"), in_first_words(note(entry)));
    entries.map(|entry| (about(entry), !is_covered(entry))).collect()
}

/// The start of the note of an Event about a resolved violation.
const RESOLVED: &str = "resolved: ";

/// Returns a note with the first variant of its message, without the number of dependents.
fn in_first_words(note: String) -> String {
    let note = WORDS.iter().fold(note, |note, words| note.replace(words, WORDS[0]));
    note.split(" (and ").next().unwrap_or_default().to_owned()
}

/// Checks that the Events of each violation are in the expected order, and that the last one matches the current state.
pub(crate) fn check_events(
    events: &ViolationEvents,
    open: &OpenViolations,
    event_order: EventOrder,
) -> Result<(), String> {
    let mut twice = if let EventOrder::ButFor(twice) = event_order { twice } else { 0 };
    let is_open = |turns: &[bool]| match event_order {
        EventOrder::AsOften => turns.len() % 2 == 1,
        _ => turns.last() == Some(&true),
    };
    for (about, turns) in events {
        let appeared = turns.iter().filter(|appeared| **appeared).count();
        let repeated = turns.windows(2).filter(|pair| pair[0] == pair[1]).count();
        let is_right = match event_order {
            EventOrder::AsOften => appeared == turns.len().div_ceil(2),
            _ => turns.first() == Some(&true) && repeated <= twice,
        };
        if !is_right {
            return Err(format!("the Events of {about:?} are in the wrong order: {turns:?}"));
        }
        twice = twice.saturating_sub(repeated);
        if is_open(turns) && !open.contains_key(about) {
            return Err(format!("the resolution of {about:?} has no Event"));
        }
    }
    let required = open.iter().filter(|(_, must)| **must).map(|(about, _)| about);
    match required.into_iter().find(|about| !events.get(*about).is_some_and(|turns| is_open(turns))) {
        Some(about) => Err(format!("{about:?} has no Event")),
        None => Ok(()),
    }
}

/// Returns the arguments for a directory of policies.
pub(crate) fn policy_arguments(directory: &Path) -> Vec<String> {
    vec!["--policies".to_owned(), directory.to_str().unwrap().to_owned()]
}
