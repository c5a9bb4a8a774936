//! What must hold whenever the cluster is quiet, whatever happened before: the live verdicts are those of a fresh
//! audit, and the Events have told each violation by turns.

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

/// How often the live verdicts are looked at; as exact as times of convergence are.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What policies say of one violation before and after they were swapped: the first words stand for all, as a violation
/// that stands gets new words without an Event.
pub(crate) const WORDS: [&str; 3] = ["bad is", "bad was", "bad be"];

/// How often a violation was told of, in the order of the Events: what it is about, then true for appeared.
pub(crate) type Told = BTreeMap<(String, String), Vec<bool>>;

/// What Events may be expected to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Telling {
    /// By turns that a violation appeared and was resolved, and in the end what stands.
    ByTurns,
    /// The same, but at most so many times twice in a row: an Event that is on its way when kaudit is killed arrives after the
    /// next run has read which are there.
    ButFor(usize),
    /// As often that it appeared as that it was resolved, in an order that cannot be told from their times.
    AsOften,
    /// Some are lost, because the server refused them, and were counted.
    Lossy,
}

/// What is compared.
pub(crate) struct Truth {
    /// Leads to the API server without any fault.
    pub(crate) kubeconfig: PathBuf,
    pub(crate) client: Client,
    /// Policies and scope, the same for the live run and the fresh ones.
    pub(crate) arguments: Vec<String>,
    /// Where Events are looked at; everywhere if it is empty.
    pub(crate) namespaces: Vec<String>,
    pub(crate) telling: Telling,
    /// Whether reports are kept of all of it.
    pub(crate) reports: bool,
}

impl Truth {
    /// Waits until everything that must hold does. Returns how long after `since` the live verdicts were right.
    pub(crate) async fn converged(&self, kaudit: &Running, since: Instant) -> Duration {
        // A token file is read again after a minute.
        let deadline = Instant::now() + PATIENCE * 2;
        let mut history = Vec::new();
        let fresh = loop {
            let fresh = tokio::select! {
                fresh = self.fresh() => fresh,
                () = watch(kaudit, &mut history) => continue,
            };
            // What is judged or read late gets a moment until another audit is due.
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
        if self.telling != Telling::Lossy {
            let standing = standing(&fresh, &self.namespaces);
            let truth = async || tells_the_truth(&told(&self.client, &self.namespaces).await, &standing, self.telling);
            until_true("Events", deadline, truth).await;
        }
        if self.reports {
            until_true("reports", deadline, async || report_the_truth(&reported(&self.client).await, &fresh)).await;
        }
        at.saturating_duration_since(since)
    }

    /// Waits until the gate is open. Until then nothing may be evaluated, and no Event may be made: those of a run that was
    /// killed just now may still arrive, and have earlier times.
    pub(crate) async fn gate(&self, kaudit: &Running) {
        let begin = Timestamp::now();
        let made = async || {
            let is_new = |event: &&Event| event.event_time.as_ref().is_some_and(|time| time.0 >= begin);
            let is_about_violation =
                |event: &&Event| matches!(event.reason.as_deref(), Some("PolicyViolation" | "PolicyResolved"));
            let events = written_events(&self.client, &self.namespaces).await;
            events.iter().filter(is_new).filter(is_about_violation).count()
        };
        // More than none if the clock of an earlier run was fast.
        let made_before = made().await;
        loop_until_open(kaudit, async || {
            let made = made().await;
            // The gate may have opened since.
            if kaudit.metric("kaudit_gate_open") == Some(0) {
                assert_eq!(made, made_before, "Events were made before the gate opened");
            }
        })
        .await;
    }

    /// The result of an audit that knows nothing of what happened.
    pub(crate) async fn fresh(&self) -> Value {
        let arguments = self.arguments.iter().map(String::as_str);
        let arguments: Vec<&str> = ["check", "--once", "-o", "json"].into_iter().chain(arguments).collect();
        let fresh = run(&self.kubeconfig, &arguments).await;
        assert!(matches!(fresh.code, Some(0 | 1)), "{:?}: {}\n{}", fresh.code, fresh.stderr, fresh.stdout);
        fresh.json()
    }
}

/// Waits until nothing is wrong with what is recorded, which may take a while longer than judging.
async fn until_true(what: &str, deadline: Instant, wrong: impl AsyncFn() -> Result<(), String>) {
    while let Err(lie) = wrong().await {
        assert!(Instant::now() < deadline, "{what}: {lie}");
        tokio::time::sleep(LOOK_EVERY * 4).await;
    }
}

async fn loop_until_open(kaudit: &Running, still_shut: impl AsyncFn()) {
    wait_for("the gate", || async {
        // Of one moment: both are in one answer.
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

/// What stands, and what was counted.
fn verdicts(result: &Value) -> (Value, Value) {
    (result["results"].clone(), result["summary"].clone())
}

/// What the live verdicts became, and when.
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

/// Says where two results differ.
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

/// Reads the Events that kaudit wrote in these namespaces, or in all.
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

/// Returns what the Events that kaudit wrote in these namespaces, or in all, report of each violation.
pub(crate) async fn told(client: &Client, namespaces: &[String]) -> Told {
    let mut events = written_events(client, namespaces).await;
    // Where a reload comes with a change of the object, the old words end in the same moment in which the new ones begin.
    let begins = |event: &Event| event.reason.as_deref() == Some("PolicyViolation");
    events.sort_by_key(|event| (event.event_time.as_ref().map(|time| time.0), begins(event)));
    let mut reported = Told::new();
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

/// Reads all results of the reports, without what depends on time.
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

/// Whether reports hold exactly the results of an audit, without those that owners stand for.
fn report_the_truth(reported: &[String], result: &Value) -> Result<(), String> {
    let listed = |entry: &&Value| entry["result"] != "skip" && !is_covered(entry);
    let entries = result["results"].as_array().unwrap().iter().filter(listed);
    let mut standing: Vec<String> = entries.map(|entry| recorded(entry, &entry["resource"])).collect();
    standing.sort();
    let missing = standing.iter().find(|entry| !reported.contains(entry));
    let surplus = reported.iter().find(|entry| !standing.contains(entry));
    let numbers = (reported.len(), standing.len());
    if reported == standing { Ok(()) } else { Err(format!("{numbers:?}; missing {missing:?}, too many {surplus:?}")) }
}

/// A result, as reports and audits have it in common.
fn recorded(entry: &Value, resource: &Value) -> String {
    format!("{} {} {}/{}: {}", resource["uid"], entry["result"], entry["policy"], entry["rule"], entry["message"])
}

/// Whether an owner stands for a result.
fn is_covered(entry: &Value) -> bool {
    !entry["coveredBy"].is_null()
}

/// What stands, as (uid, note), and whether it has to be told of: where an owner stands for it, it may be or not.
pub(crate) type Standing = BTreeMap<(String, String), bool>;

/// What stands in these namespaces, or anywhere, according to a result.
pub(crate) fn standing(result: &Value, namespaces: &[String]) -> Standing {
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

/// The begin of the note of an Event about a resolved violation.
const RESOLVED: &str = "resolved: ";

/// Returns a note in the first words for it, and without the number of dependents.
fn in_first_words(note: String) -> String {
    let note = WORDS.iter().fold(note, |note, words| note.replace(words, WORDS[0]));
    note.split(" (and ").next().unwrap_or_default().to_owned()
}

/// Whether each violation was told by turns, and its last turn is as things stand.
pub(crate) fn tells_the_truth(told: &Told, standing: &Standing, telling: Telling) -> Result<(), String> {
    let mut twice = if let Telling::ButFor(twice) = telling { twice } else { 0 };
    let stands = |turns: &[bool]| match telling {
        Telling::AsOften => turns.len() % 2 == 1,
        _ => turns.last() == Some(&true),
    };
    for (about, turns) in told {
        let appeared = turns.iter().filter(|appeared| **appeared).count();
        let repeated = turns.windows(2).filter(|pair| pair[0] == pair[1]).count();
        let is_right = match telling {
            Telling::AsOften => appeared == turns.len().div_ceil(2),
            _ => turns.first() == Some(&true) && repeated <= twice,
        };
        if !is_right {
            return Err(format!("{about:?} was told as {turns:?}"));
        }
        twice = twice.saturating_sub(repeated);
        if stands(turns) && !standing.contains_key(about) {
            return Err(format!("the end of {about:?} was not told"));
        }
    }
    let must_be_told = standing.iter().filter(|(_, must)| **must).map(|(about, _)| about);
    match must_be_told.into_iter().find(|about| !told.get(*about).is_some_and(|turns| stands(turns))) {
        Some(about) => Err(format!("{about:?} was not told")),
        None => Ok(()),
    }
}

/// The arguments that name a directory of policies.
pub(crate) fn policy_arguments(directory: &Path) -> Vec<String> {
    vec!["--policies".to_owned(), directory.to_str().unwrap().to_owned()]
}
