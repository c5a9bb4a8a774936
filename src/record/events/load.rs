//! Reads the open violations from the Events of earlier runs.
//!
//! The Event that was written last decides: the violation is open if that Event is about its appearance. An earlier
//! appearance without a resolution of its own is resolved with the later one: the run was killed in between. The server
//! deletes Events after a while (`--event-ttl` of the API server, an hour by default). That time cannot be queried, but
//! the oldest Event shows how far back they all go: the server deletes them in the order of their creation.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use tracing::warn;

use super::{
    annotations::{self, AUDIT},
    legacy_note,
    queue::CLUSTER_SCOPED,
    settings::EventFilter,
    stored::{self, StoredEvent},
};
use crate::{
    audit::{
        ledger::{Id, Lifecycle, Violation},
        recorded::{Recorded, RecordedObject},
    },
    cluster::error::describe,
    model::object::ObjectRef,
    record::{
        earlier::{EarlierRecords, Refusals},
        event_reasons::{APPEARED, RESOLVED},
        failure::WriteFailure,
        message_name::lifecycle_name_of,
    },
};

/// The most bytes of text that an Event of kaudit has. Larger Events were written by others.
const EVENT_BYTES: usize = 16 * 1024;
/// The most memory for the Events of one namespace and for all Events, as estimated. Anyone who may create Events in a
/// namespace can fill its share.
const NAMESPACE_BYTES: usize = 16 << 20;
const TOTAL_BYTES: usize = 64 << 20;
/// The memory that an Event takes besides its texts, as estimated.
const OVERHEAD: usize = 1024;
/// How much earlier than the oldest Event a violation may have appeared and still be expected to have its own: the
/// server's creation times are in seconds and by its own clock, and an Event is written a moment after the violation
/// appears.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(5);

/// What was read from the Events of earlier runs.
#[derive(Debug, Default)]
pub struct WrittenEvents {
    /// The violations that are open according to them.
    recorded: Recorded,
    /// The last one about each violation.
    last: HashMap<EventSubject, (LastEvent, Timestamp)>,
    /// Whether Events about resolutions were written.
    has_resolutions: bool,
    /// The creation time of the oldest Event, including those of other kaudits; `None` if there is none.
    oldest: Option<Timestamp>,
}

/// The violation that an Event is about, and the namespace and the [identity](ObjectRef::identity) of its object.
/// Anyone can compute the ids of violations, so an Event proves nothing about objects of other namespaces.
type EventSubject = (Id, Option<Arc<str>>, String);

fn subject(id: Id, object: &ObjectRef) -> EventSubject {
    (id, object.namespace.clone(), object.identity())
}

/// What the last Event about a violation reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastEvent {
    Appeared,
    Resolved,
}

/// Reads the Events of the kaudit with this `Audit`, in `namespaces` or, if that is empty, everywhere. If the server
/// refuses to list them for some time, nothing counts as recorded. Without Events about resolutions (`filter`), an
/// Event proves that an appearance was reported, and not that the violation is still open.
///
/// # Errors
/// The reason, if they could not be read for some time.
pub async fn load(
    records: &EarlierRecords<'_>,
    namespaces: &[String],
    audit: &str,
    filter: EventFilter,
) -> Result<WrittenEvents, String> {
    let client = records.client;
    let apis: Vec<Api<Event>> = match namespaces {
        [] => vec![Api::all(client.clone())],
        _ => namespaces.iter().map(|namespace| Api::namespaced(client.clone(), namespace)).collect(),
    };
    let mut appearances = Appearances::default();
    for api in apis {
        let mut refusals = Refusals::default();
        let attempt = async || {
            let mut found = Appearances { bytes: appearances.bytes, ..Appearances::default() };
            match stored::read(client, &api, |event| found.add(event, audit)).await {
                Ok(()) => Ok(Ok(found)),
                // The namespace is deleted or terminating.
                Err(error) if matches!(WriteFailure::of(&error), WriteFailure::Normal(_)) => Ok(Ok(found)),
                Err(error) if refusals.note(&error) && refusals.have_lasted(records.attempts) => {
                    Ok(Err(describe(&error)))
                }
                Err(error) => Err(error),
            }
        };
        match records.read(attempt).await? {
            Ok(found) => appearances.join(found),
            Err(why) => {
                warn!("Earlier Events cannot be read, so Events about open violations are written again: {why}");
            }
        }
    }
    if !appearances.left_out.is_empty() {
        warn!(
            namespaces = ?appearances.left_out,
            "There are more Events of kaudit than are read at startup: some Events of these namespaces are ignored, and Events \
             about their open violations may be written again"
        );
    }
    Ok(appearances.written(filter))
}

/// Joins the violations from reports with those from Events. Marks as unreported those for which the earlier run wrote
/// no Event: they are in the reports, and the server would still have their Events, because it keeps all since
/// `kept_since`, or because they are no older than the oldest Event. Nothing is known about older ones, whose Events
/// may have been deleted. If Events and report differ in the time, the report is out of date, and the Events count.
///
/// Violations in Events but not in reports are kept: the run ended before it wrote the report.
pub fn reconcile(reported: Recorded, events: WrittenEvents, kept_since: Timestamp) -> Recorded {
    let WrittenEvents { recorded: events, last, has_resolutions, oldest } = events;
    let mut recorded = reported;
    recorded.revise(|object, result| {
        let young =
            result.since >= kept_since || oldest.is_some_and(|oldest| oldest.duration_since(result.since) <= TOLERANCE);
        let event = last.get(&subject(result.id, object));
        // Without Events about resolutions, a violation with a later time in the report appeared again after the Event.
        result.unreported = match event.filter(|(_, since)| has_resolutions || result.since <= *since) {
            Some((LastEvent::Appeared, since)) => {
                result.since = *since;
                false
            }
            Some((LastEvent::Resolved, since)) => {
                if result.since <= *since {
                    // A new Event would have the name of the existing one. If the violation is open, it appeared again
                    // since.
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

/// The Events of each violation, within the limits for memory.
#[derive(Default)]
struct Appearances {
    by_violation: BTreeMap<EventSubject, Vec<ViolationEvent>>,
    oldest: Option<Timestamp>,
    /// The memory that they take, by namespace and together.
    bytes_of: BTreeMap<String, usize>,
    bytes: usize,
    /// Namespaces with Events that were left out.
    left_out: BTreeSet<String>,
}

/// The appearance or resolution of a violation, as an Event reports it.
struct ViolationEvent {
    /// Its resource version, which gives the order of writing: the API defines it as a number that grows with every
    /// write.
    version: u64,
    /// When the violation appeared.
    since: Timestamp,
    /// The object and the violation of an appearance; `None` for a resolution.
    appeared: Option<Box<(ObjectRef, Violation)>>,
}

impl Appearances {
    /// Adds an Event if this kaudit wrote it about a violation that can be open.
    fn add(&mut self, event: StoredEvent, audit: &str) {
        self.oldest = self.oldest.into_iter().chain(event.metadata.creation_timestamp).min();
        let mut annotations = event.metadata.annotations.unwrap_or_default();
        let (Some((id, since)), Some(object)) = (annotations::id_and_since(&annotations), event.regarding) else {
            return;
        };
        let lifecycle = match event.reason.as_deref() {
            Some(RESOLVED) => Lifecycle::Resolved,
            Some(APPEARED) => Lifecycle::Appeared,
            _ => return,
        };
        // Events that others wrote have another name, or are about an object in another namespace.
        let namespace = object.namespace.as_deref().unwrap_or(CLUSTER_SCOPED);
        let is_own = annotations.get(AUDIT).is_some_and(|own| own == audit)
            && event.metadata.name == Some(lifecycle_name_of(lifecycle, id, since))
            && event.metadata.namespace.as_deref() == Some(namespace);
        if !is_own {
            return;
        }
        legacy_note::add_message(&mut annotations, event.note);
        if !self.has_room(&object, annotations::kept_bytes(&annotations)) {
            return;
        }
        let subject = subject(id, &object);
        let appeared = match lifecycle {
            Lifecycle::Appeared => {
                let Some(violation) = annotations::violation(&annotations, &object) else { return };
                Some(Box::new((object, violation)))
            }
            Lifecycle::Resolved | Lifecycle::Happened => None,
        };
        let version = event.metadata.resource_version.and_then(|version| version.parse().ok()).unwrap_or_default();
        self.by_violation.entry(subject).or_default().push(ViolationEvent { version, since, appeared });
    }

    /// Adds the Events of another namespace.
    fn join(&mut self, other: Self) {
        let Self { by_violation, oldest, bytes_of, bytes, left_out } = other;
        for (subject, events) in by_violation {
            self.by_violation.entry(subject).or_default().extend(events);
        }
        self.oldest = self.oldest.into_iter().chain(oldest).min();
        self.bytes_of.extend(bytes_of);
        self.bytes = bytes;
        self.left_out.extend(left_out);
    }

    /// Whether there is room for an Event about this object with texts of so many bytes; reserves its memory.
    fn has_room(&mut self, object: &ObjectRef, texts: usize) -> bool {
        let ObjectRef { api_version, kind, namespace, name, uid, .. } = object;
        let namespace = namespace.as_deref().unwrap_or(CLUSTER_SCOPED);
        let bytes = texts + [&**api_version, kind, namespace, name, uid].map(str::len).iter().sum::<usize>();
        if bytes > EVENT_BYTES {
            return false;
        }
        let bytes = bytes + OVERHEAD;
        let of_namespace = self.bytes_of.entry(namespace.to_owned()).or_default();
        if *of_namespace + bytes > NAMESPACE_BYTES || self.bytes + bytes > TOTAL_BYTES {
            self.left_out.insert(namespace.to_owned());
            return false;
        }
        *of_namespace += bytes;
        self.bytes += bytes;
        true
    }

    fn written(self, filter: EventFilter) -> WrittenEvents {
        let has_resolutions = filter != EventFilter::Appeared;
        let mut last = HashMap::new();
        let mut recorded = Recorded::default();
        for (subject, mut events) in self.by_violation {
            events.sort_unstable_by_key(|event| (event.version, event.since, event.appeared.is_none()));
            let mut open = None;
            for ViolationEvent { since, appeared, .. } in events {
                let is_resolution = appeared.is_none();
                // The resolution of another appearance does not resolve this one.
                if is_resolution && open.as_ref().is_some_and(|(began, _)| *began != since) {
                    continue;
                }
                last.insert(
                    subject.clone(),
                    (if is_resolution { LastEvent::Resolved } else { LastEvent::Appeared }, since),
                );
                open = appeared.map(|appeared| (since, appeared));
            }
            if let Some((_, appeared)) = open {
                let (object, known) = *appeared;
                let results = vec![Violation { may_have_ended: !has_resolutions, ..known }];
                recorded.add(RecordedObject { object, results });
            }
        }
        WrittenEvents { recorded, last, has_resolutions, oldest: self.oldest }
    }
}

#[cfg(test)]
mod tests;
