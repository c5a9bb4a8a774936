//! Reads from the Events of earlier runs which violations stand.
//!
//! The one that was written last tells: it stands if that says so. What appeared before and has no end of its own is over with
//! what came later: the run was killed in between. The server deletes Events after a while (`--event-ttl` of the API server, an hour by default). How long that is cannot be asked, but the oldest that is
//! there shows how far back all are: the server deletes them in the order in which they were made.

use std::{
    collections::{BTreeMap, HashMap},
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
        ledger::{Id, Subject, Violation},
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
/// How much earlier than the oldest Event a violation may be for its own Event to be there still: the server counts its time
/// in seconds, by a clock of its own, and the first Event is written a moment after what it is about.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(5);

/// What the Events of earlier runs say.
#[derive(Debug, Default)]
pub struct WrittenEvents {
    /// What stands according to them.
    recorded: Recorded,
    /// Since when each violation stands that they tell of, or until its end stood.
    told: HashMap<Id, (Told, Timestamp)>,
    /// When the oldest of them was made, of those of other kaudits, too; `None` if there is none.
    oldest: Option<Timestamp>,
}

/// The last that Events say of a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Appeared,
    Resolved,
}

/// Returns what the Events of the kaudit with this `Audit` say, in `namespaces` or, if that is empty, everywhere. Retries
/// until the server answers; where it refuses, nothing counts as recorded.
pub async fn load(client: &Client, namespaces: &[String], audit: &str) -> WrittenEvents {
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
    appearances.written()
}

/// Joins what is in reports with what is in Events. Marks as untold what the earlier run did not come to write an Event
/// about: violations that are in the reports, and whose Events the server would still have, because it keeps all of
/// `kept_since`, or because they are no older than the oldest that is there. Beyond that nothing is known to be missing, as all
/// may have been deleted by now. Where the Events tell of another time than the report, the report was not written any more,
/// and the Events count.
///
/// What is in Events and not in reports is kept: the report was to be written a moment later.
pub fn reconcile(reported: Recorded, events: WrittenEvents, kept_since: Timestamp) -> Recorded {
    let WrittenEvents { recorded: events, told, oldest } = events;
    let mut recorded = reported;
    recorded.revise(|result| {
        let young =
            result.since >= kept_since || oldest.is_some_and(|oldest| oldest.duration_since(result.since) <= TOLERANCE);
        result.untold = match told.get(&result.id) {
            Some((Told::Appeared, since)) => {
                result.since = *since;
                false
            }
            Some((Told::Resolved, since)) => {
                if result.since <= *since {
                    // It would be told by the name of the Event that is there. If it stands, it has come back since.
                    result.since = Timestamp::now();
                }
                result.finding.outcome.is_violation()
            }
            None => young && result.finding.outcome.is_violation(),
        };
    });
    recorded.join(events);
    recorded
}

/// The Events of each violation.
#[derive(Default)]
struct Appearances {
    by_violation: BTreeMap<Id, Vec<Turn>>,
    oldest: Option<Timestamp>,
}

/// What an Event says of a violation.
struct Turn {
    /// Its place in the order of writing: its resource version, which the API defines as a number that grows with every write.
    version: u64,
    /// Since when the violation stands or stood.
    since: Timestamp,
    /// The object and the note of an appearance; `None` says that it is over.
    appeared: Option<(Box<ObjectReference>, String)>,
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
        let made = event.metadata.creation_timestamp.map(|time| time.0);
        self.oldest = self.oldest.into_iter().chain(made).min();
        let annotations = event.metadata.annotations.unwrap_or_default();
        let annotation = |name: &str| annotations.get(name).map(String::as_str);
        let id = annotation(VIOLATION).and_then(Id::parse);
        let since = annotation(SINCE).and_then(|since| since.parse().ok());
        let (Some(id), Some(since)) = (id, since) else { return };
        if annotation(AUDIT) != Some(audit) {
            return;
        }
        let appeared = match (event.reason.as_deref(), event.regarding, event.note) {
            (Some(RESOLVED), ..) => None,
            (Some(APPEARED), Some(regarding), Some(note)) => Some((Box::new(regarding), note)),
            _ => return,
        };
        let version = event.metadata.resource_version.and_then(|version| version.parse().ok()).unwrap_or_default();
        self.by_violation.entry(id).or_default().push(Turn { version, since, appeared });
    }

    fn written(self) -> WrittenEvents {
        let mut told = HashMap::new();
        let mut standing = BTreeMap::new();
        for (id, mut turns) in self.by_violation {
            turns.sort_unstable_by_key(|turn| (turn.version, turn.since, turn.appeared.is_none()));
            let mut open = None;
            for Turn { since, appeared, .. } in turns {
                let is_end = appeared.is_none();
                // The end of what had another beginning says nothing of this one.
                if is_end && open.as_ref().is_some_and(|(began, _)| *began != since) {
                    continue;
                }
                told.insert(id, (if is_end { Told::Resolved } else { Told::Appeared }, since));
                open = appeared.map(|appeared| (since, appeared));
            }
            if let Some(open) = open {
                standing.insert(id, open);
            }
        }
        let mut recorded = Recorded::default();
        for (id, (since, (regarding, note))) in standing {
            let ObjectReference { api_version, kind, namespace, name, uid, .. } = *regarding;
            let object = ObjectRef {
                api_version: api_version.unwrap_or_default(),
                kind: kind.unwrap_or_default(),
                namespace: namespace.map(Arc::from),
                name: name.unwrap_or_default().into(),
                uid: uid.unwrap_or_default().into(),
            };
            let finding = finding(id, (&object).into(), &note);
            let results = vec![Violation { id, fingerprint: id, ..Violation::new((&object).into(), finding, since) }];
            recorded.add(RecordedObject { object, results });
        }
        WrittenEvents { recorded, told, oldest: self.oldest }
    }
}

/// Parses the finding from a note. That may be cut, and has neither severity nor source: it never replaces the finding of a
/// policy, but it reads the same in another Event.
fn finding(id: Id, subject: Subject<'_>, note: &str) -> Finding {
    let (place, message) = note.split_once(": ").unwrap_or(("", note));
    // An Event about an owner counts its dependents.
    let counted =
        message.rsplit_once(" (and ").filter(|(_, rest)| rest.ends_with(" dependents)") || *rest == "1 dependent)");
    let message = counted.map_or(message, |(message, _)| message);
    let (policy, rule) = place.rsplit_once('/').unwrap_or((place, ""));
    let finding = |outcome| Finding {
        policy: policy.into(),
        rule: rule.into(),
        outcome,
        severity: None,
        category: None,
        message: message.into(),
        details: None,
        excused: None,
        source: Source { file: "".into(), line: 0 },
    };
    let warning = finding(Outcome::Warn);
    if Id::new(subject, &warning) == id { warning } else { finding(Outcome::Fail) }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    const FIRST: &str = "2026-11-21T10:00:00.123456789Z";
    const SECOND: &str = "2026-11-21T10:00:01Z";

    fn finding_of(message: &str, outcome: Outcome) -> Finding {
        Finding {
            outcome,
            ..finding(Id::parse(&"0".repeat(32)).unwrap(), Subject::SAMPLE, &format!("pod.security/deny: {message}"))
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
        let annotations = [(VIOLATION, Id::new(Subject::SAMPLE, finding).to_string()), (SINCE, since.to_owned())];
        let annotations = annotations.into_iter().chain([(AUDIT, "kaudit/kaudit".to_owned())]);
        event.metadata.annotations = Some(annotations.map(|(name, value)| (name.to_owned(), value)).collect());
        event
    }

    fn objects(events: impl IntoIterator<Item = Event>) -> Vec<RecordedObject> {
        written(events).recorded.objects().cloned().collect()
    }

    fn written(events: impl IntoIterator<Item = Event>) -> WrittenEvents {
        let mut appearances = Appearances::default();
        events.into_iter().for_each(|event| appearances.add(event, "kaudit/kaudit"));
        appearances.written()
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
        assert_eq!(results[0], Violation::new(Subject::SAMPLE, a.clone(), FIRST.parse().unwrap()));
        assert_eq!(results[1].finding, b);
        // In whatever order they come.
        assert!(objects([event(&a, RESOLVED, FIRST), event(&a, APPEARED, FIRST)]).is_empty());
        assert!(objects([event(&a, RESOLVED, FIRST)]).is_empty(), "the server has forgotten that it appeared");
    }

    #[test]
    fn the_event_that_was_written_last_tells() {
        let a = finding_of("a", Outcome::Fail);
        let since = |turns: &[(&str, &str)]| {
            let events = turns.iter().zip(9..).map(|((reason, since), version)| {
                let mut event = event(&a, reason, since);
                event.metadata.resource_version = Some(format!("{version}"));
                event
            });
            // The server lists them by name.
            let events: Vec<_> = events.collect();
            let standing = objects(events.into_iter().rev());
            standing.first().map(|object| object.results[0].since.to_string())
        };
        // Whatever the clock did between.
        assert_eq!(since(&[(APPEARED, SECOND), (RESOLVED, SECOND), (APPEARED, FIRST)]).unwrap(), FIRST);
        // A run was killed while the first was on its way, so that the next one did not know of it.
        let twice = [(APPEARED, FIRST), (APPEARED, SECOND), (RESOLVED, SECOND)];
        assert_eq!((since(&twice[..2]).unwrap(), since(&twice)), (SECOND.to_owned(), None));
        assert_eq!(since(&[(APPEARED, FIRST), (APPEARED, SECOND), (RESOLVED, FIRST)]).unwrap(), SECOND);
    }

    #[test]
    fn where_a_report_was_not_written_any_more_the_events_count() {
        let a = finding_of("a", Outcome::Fail);
        let reported = |since| written([event(&a, APPEARED, since)]).recorded;
        let reconciled = |reported, events: Vec<Event>| {
            let recorded = reconcile(reported, written(events), Timestamp::MIN);
            let object = recorded.objects().next().unwrap();
            (object.results[0].untold, object.results[0].since)
        };
        let (first, second): (Timestamp, Timestamp) = (FIRST.parse().unwrap(), SECOND.parse().unwrap());
        assert_eq!(reconciled(reported(SECOND), vec![event(&a, APPEARED, FIRST)]), (false, first));
        let over = || vec![event(&a, APPEARED, FIRST), event(&a, RESOLVED, FIRST)];
        assert_eq!(reconciled(reported(SECOND), over()), (true, second));
        // An Event of this name is there already.
        let (untold, since) = reconciled(reported(FIRST), over());
        assert!(untold && since > second, "{since}");
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
        assert_eq!(
            (object.results[0].id, object.results[0].finding.message.len()),
            (Id::new(Subject::SAMPLE, &whole), 1_005)
        );
    }

    #[test]
    fn what_the_run_before_did_not_tell_of_is_known() {
        let (a, b, c) =
            (finding_of("a", Outcome::Fail), finding_of("b", Outcome::Fail), finding_of("c", Outcome::Fail));
        let reported = || written([event(&a, APPEARED, FIRST), event(&b, APPEARED, FIRST)]).recorded;
        let made = |at: &str, mut event: Event| {
            event.metadata.creation_timestamp = Some(Time(at.parse().unwrap()));
            event
        };
        let others = |at| made(at, Event::default());
        let mine = || [event(&b, APPEARED, FIRST), made(SECOND, event(&c, APPEARED, SECOND))];
        let untold = |recorded: &Recorded| -> Vec<String> {
            let results = recorded.objects().flat_map(|object| &object.results).filter(|result| result.untold);
            results.map(|result| result.finding.message.to_string()).collect()
        };
        let reconcile = |reported, events| reconcile(reported, events, Timestamp::MAX);
        let recorded = reconcile(reported(), written(mine()));
        let objects: Vec<_> = recorded.objects().collect();
        assert_eq!((objects.len(), objects[0].results.len()), (1, 3), "one object with a, b and c");
        assert_eq!(untold(&recorded), ["a"]);
        // The server keeps them no longer than since then, or for a time that is not known.
        for events in [vec![others("2026-11-21T10:00:06Z")], vec![]] {
            let recorded = reconcile(reported(), written(events));
            assert!(untold(&recorded).is_empty() && recorded.objects().count() == 1);
        }
        let long_ago = others("2026-11-20T10:00:00Z");
        let recorded = reconcile(reported(), written([long_ago, others("2026-11-21T10:00:06Z")]));
        assert_eq!(untold(&recorded).len(), 2, "it keeps them for days");
        assert!(untold(&reconcile(Recorded::default(), written(mine()))).is_empty());
        // Nor did it come to write any: that can be seen for as long as the server keeps them for sure.
        let first: Timestamp = FIRST.parse().unwrap();
        assert_eq!(untold(&super::reconcile(reported(), written([]), first)).len(), 2);
        assert_eq!(untold(&super::reconcile(reported(), written([]), SECOND.parse().unwrap())).len(), 0);
    }
}
