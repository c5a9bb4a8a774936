//! Reads from the Events of earlier runs which violations stand.
//!
//! One stands if there is an Event that it appeared and none that it was resolved since. The server deletes Events after a
//! while (`--event-ttl` of the API server, an hour by default).

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{core::v1::ObjectReference, events::v1::Event};
use kube::{Api, Client, api::ListParams};
use tokio::time::sleep;
use tracing::warn;

use super::annotations::{APPEARED, AUDIT, RESOLVED, SINCE, VIOLATION};
use crate::{
    audit::{
        ledger::{Delta, Id, Violation},
        queue::Lane,
        recorded::{Recorded, RecordedObject},
    },
    cluster::{backoff::Backoff, error::describe, identity::CONTROLLER},
    model::{
        object::ObjectRef,
        verdict::{Finding, Outcome, Source},
    },
    record::failure::WriteFailure,
};

/// Events in one answer.
const PAGE: u32 = 500;
/// How long the server keeps Events by default.
const EVENT_TTL: SignedDuration = SignedDuration::from_hours(1);

/// Returns what stands according to the Events of the kaudit with this `Audit`, in `namespaces` or, if that is empty,
/// everywhere. Retries until the server answers; where it refuses, nothing counts as recorded.
pub async fn load(client: &Client, namespaces: &[String], audit: &str) -> Recorded {
    let apis: Vec<Api<Event>> = match namespaces {
        [] => vec![Api::all(client.clone())],
        _ => namespaces.iter().map(|namespace| Api::namespaced(client.clone(), namespace)).collect(),
    };
    let mut appearances = Appearances::default();
    for api in apis {
        let mut failures = 0;
        while let Err(error) = read(&api, audit, &mut appearances).await {
            let what = describe(&error);
            match WriteFailure::of(&error) {
                WriteFailure::Later => warn!("The Events written so far cannot be read, trying on: {what}"),
                WriteFailure::Normal(_) => break,
                WriteFailure::Refused(_) => {
                    warn!(
                        "The Events written so far cannot be read, so Events about what stands are written again: {what}"
                    );
                    break;
                }
            }
            failures += 1;
            sleep(Backoff::SHORT.after(failures)).await;
        }
    }
    appearances.recorded()
}

/// Joins what is in reports with what is in Events. Returns both, and the Events that are missing: those of violations that
/// are in the reports, and so young that the server would still have the Event if the earlier run had written it.
///
/// What is in Events and not in reports is kept: the report was to be written a moment later.
pub fn reconcile(reported: Recorded, events: Recorded, now: Timestamp) -> (Recorded, Vec<Delta>) {
    let known: HashSet<Id> = events.objects().flat_map(|object| &object.results).map(|result| result.id).collect();
    let missing = |result: &&Violation| {
        let young = now.duration_since(result.since) < EVENT_TTL;
        young && result.finding.outcome.is_violation() && !known.contains(&result.id)
    };
    let deltas = reported.objects().filter_map(|object| {
        let appeared: Vec<_> = object.results.iter().filter(missing).cloned().collect();
        (!appeared.is_empty()).then(|| Delta {
            object: object.key(&object.former_kind()),
            uid: object.object.uid.clone(),
            appeared,
            resolved: Vec::new(),
            transitions: Vec::new(),
            results: object.results.clone(),
            lane: Lane::Snapshot,
        })
    });
    let deltas = deltas.collect();
    let mut recorded = reported;
    recorded.join(events);
    (recorded, deltas)
}

/// Each time that a violation appeared.
#[derive(Default)]
struct Appearances(BTreeMap<(Id, Timestamp), Appearance>);

/// What the Events say of it; possibly only that it is over.
#[derive(Default)]
struct Appearance {
    /// The object and the note.
    appeared: Option<(Box<ObjectReference>, String)>,
    resolved: bool,
}

/// Reads all Events, page by page: the server cannot select the newest.
async fn read(api: &Api<Event>, audit: &str, appearances: &mut Appearances) -> kube::Result<()> {
    let mut page = ListParams::default().fields(&format!("reportingController={CONTROLLER}")).limit(PAGE);
    loop {
        let list = api.list(&page).await?;
        list.items.into_iter().for_each(|event| appearances.add(event, audit));
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(()),
        }
    }
}

impl Appearances {
    /// Adds an Event if this kaudit wrote it about a violation that can stand.
    fn add(&mut self, event: Event, audit: &str) {
        let annotations = event.metadata.annotations.unwrap_or_default();
        let annotation = |name: &str| annotations.get(name).map(String::as_str);
        let id = annotation(VIOLATION).and_then(Id::parse);
        let since = annotation(SINCE).and_then(|since| since.parse().ok());
        let (Some(id), Some(since)) = (id, since) else { return };
        if annotation(AUDIT) != Some(audit) {
            return;
        }
        match (event.reason.as_deref(), event.regarding, event.note) {
            (Some(RESOLVED), ..) => self.0.entry((id, since)).or_default().resolved = true,
            (Some(APPEARED), Some(regarding), Some(note)) => {
                self.0.entry((id, since)).or_default().appeared = Some((Box::new(regarding), note));
            }
            _ => {}
        }
    }

    fn recorded(self) -> Recorded {
        // If two appearances of one violation are open, the newer counts.
        let mut standing: BTreeMap<Id, (Timestamp, Box<ObjectReference>, String)> = BTreeMap::new();
        for ((id, since), appearance) in self.0 {
            if let Some((regarding, note)) = appearance.appeared.filter(|_| !appearance.resolved)
                && standing.get(&id).is_none_or(|(known, ..)| *known < since)
            {
                standing.insert(id, (since, regarding, note));
            }
        }
        let mut objects: BTreeMap<String, RecordedObject> = BTreeMap::new();
        for (id, (since, regarding, note)) in standing {
            let ObjectReference { api_version, kind, namespace, name, uid, .. } = *regarding;
            let uid = uid.unwrap_or_default();
            let finding = finding(id, &uid, &note);
            let object = objects.entry(uid.clone()).or_insert_with(|| RecordedObject {
                object: ObjectRef {
                    api_version: api_version.unwrap_or_default(),
                    kind: kind.unwrap_or_default(),
                    namespace: namespace.map(Arc::from),
                    name: name.unwrap_or_default().into(),
                    uid: uid.into(),
                },
                results: Vec::new(),
            });
            object.results.push(Violation { id, finding, since });
        }
        let mut recorded = Recorded::default();
        for object in objects.into_values() {
            recorded.add(object);
        }
        recorded
    }
}

/// Parses the finding from a note. That may be cut, and has neither severity nor source: it never replaces the finding of a
/// policy, but it reads the same in another Event.
fn finding(id: Id, uid: &str, note: &str) -> Finding {
    let (place, message) = note.split_once(": ").unwrap_or(("", note));
    let (policy, rule) = place.rsplit_once('/').unwrap_or((place, ""));
    let finding = |outcome| Finding {
        policy: policy.into(),
        rule: rule.into(),
        outcome,
        severity: None,
        category: None,
        message: message.into(),
        details: None,
        source: Source { file: "".into(), line: 0 },
    };
    let warning = finding(Outcome::Warn);
    if Id::new(uid, &warning) == id { warning } else { finding(Outcome::Fail) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "2026-11-21T10:00:00.123456789Z";
    const SECOND: &str = "2026-11-21T10:00:01Z";

    fn finding_of(message: &str, outcome: Outcome) -> Finding {
        Finding {
            outcome,
            ..finding(Id::parse(&"0".repeat(32)).unwrap(), "u", &format!("pod.security/deny: {message}"))
        }
    }

    fn event(finding: &Finding, reason: &str, since: &str) -> Event {
        let mut event = Event {
            reason: Some(reason.to_owned()),
            note: Some(format!("{}/{}: {}", finding.policy, finding.rule, finding.message)),
            regarding: Some(ObjectReference {
                api_version: Some("apps/v1".to_owned()),
                kind: Some("Deployment".to_owned()),
                namespace: Some("shop".to_owned()),
                name: Some("api".to_owned()),
                uid: Some("u".to_owned()),
                ..ObjectReference::default()
            }),
            ..Event::default()
        };
        let annotations = [(VIOLATION, Id::new("u", finding).to_string()), (SINCE, since.to_owned())];
        let annotations = annotations.into_iter().chain([(AUDIT, "kaudit/kaudit".to_owned())]);
        event.metadata.annotations = Some(annotations.map(|(name, value)| (name.to_owned(), value)).collect());
        event
    }

    fn objects(events: impl IntoIterator<Item = Event>) -> Vec<RecordedObject> {
        recorded(events).objects().cloned().collect()
    }

    fn recorded(events: impl IntoIterator<Item = Event>) -> Recorded {
        let mut appearances = Appearances::default();
        events.into_iter().for_each(|event| appearances.add(event, "kaudit/kaudit"));
        appearances.recorded()
    }

    #[test]
    fn what_appeared_and_was_not_resolved_since_stands() {
        let (a, b) = (finding_of("a: b", Outcome::Warn), finding_of("c/d", Outcome::Fail));
        let [object] = &objects([event(&a, APPEARED, FIRST), event(&b, APPEARED, SECOND)])[..] else { panic!() };
        assert_eq!(
            (object.object.api_version.as_str(), object.object.kind.as_str(), &*object.object.name),
            ("apps/v1", "Deployment", "api")
        );
        let mut results = object.results.clone();
        results.sort_by_key(|result| result.since);
        assert_eq!(results[0], Violation { id: Id::new("u", &a), finding: a.clone(), since: FIRST.parse().unwrap() });
        assert_eq!(results[1].finding, b);
        // In whatever order they come; and whatever the clock did between.
        assert!(objects([event(&a, RESOLVED, FIRST), event(&a, APPEARED, FIRST)]).is_empty());
        let again = [event(&a, APPEARED, FIRST), event(&a, RESOLVED, SECOND), event(&a, APPEARED, SECOND)];
        assert_eq!(objects(again)[0].results[0].since, FIRST.parse().unwrap());
        assert!(objects([event(&a, RESOLVED, FIRST)]).is_empty(), "the server has forgotten that it appeared");
    }

    #[test]
    fn moments_and_the_events_of_others_are_not_remembered() {
        let a = finding_of("a", Outcome::Fail);
        let without = |name: &str| {
            let mut event = event(&a, APPEARED, FIRST);
            event.metadata.annotations.as_mut().unwrap().remove(name);
            event
        };
        assert!(objects([VIOLATION, SINCE, AUDIT].map(without)).is_empty());
        let mut other = event(&a, APPEARED, FIRST);
        other.metadata.annotations.as_mut().unwrap().insert(AUDIT.to_owned(), "team/kaudit".to_owned());
        assert!(objects([other]).is_empty());
        assert!(objects([event(&a, "EventsHeldBack", FIRST)]).is_empty());
    }

    #[test]
    fn a_note_that_was_cut_is_known_by_its_id() {
        let whole = finding_of(&"x".repeat(2_000), Outcome::Fail);
        let mut cut = event(&whole, APPEARED, FIRST);
        cut.note.as_mut().unwrap().truncate(1_024);
        let [object] = &objects([cut])[..] else { panic!() };
        assert_eq!((object.results[0].id, object.results[0].finding.message.len()), (Id::new("u", &whole), 1_005));
    }

    #[test]
    fn events_that_the_run_before_did_not_write_are_written_and_none_twice() {
        let (a, b, c) =
            (finding_of("a", Outcome::Fail), finding_of("b", Outcome::Fail), finding_of("c", Outcome::Fail));
        let reported = || recorded([event(&a, APPEARED, FIRST), event(&b, APPEARED, FIRST)]);
        let written = || recorded([event(&b, APPEARED, FIRST), event(&c, APPEARED, SECOND)]);
        let now: Timestamp = SECOND.parse().unwrap();
        let (recorded, missing) = reconcile(reported(), written(), now);
        let objects: Vec<_> = recorded.objects().collect();
        assert_eq!((objects.len(), objects[0].results.len()), (1, 3), "one object with a, b and c");
        let [delta] = &missing[..] else { panic!("{missing:?}") };
        assert_eq!((delta.appeared.len(), &delta.appeared[0].finding), (1, &a));
        assert_eq!((delta.object.to_string(), &*delta.uid), (delta.object.to_string(), "u"));
        let (recorded, missing) = reconcile(reported(), Recorded::default(), now + EVENT_TTL);
        assert!(missing.is_empty() && recorded.objects().count() == 1, "the Events may be gone by now");
        assert!(reconcile(Recorded::default(), written(), now).1.is_empty());
    }
}
