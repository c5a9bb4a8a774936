//! The Events that are not written yet.
//!
//! No Event about an open violation is dropped. The queue is bounded by the violations that are open or recorded as
//! open: a violation that is resolved before its Event was written gets none, neither for its appearance nor for its
//! resolution.
//!
//! Namespaces take turns within a priority: a namespace with very many violations delays each Event of another
//! namespace by no more than one of its own.
//!
//! Events about one violation are written one after the other, so that a run that is killed in between leaves the first
//! of them. So are Events about the same rule and message with another outcome: the last one shows the current state.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Instant,
};

use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;

use crate::{
    audit::{
        ledger::{Lifecycle, Violation},
        recording::MOST_TRANSITIONS,
    },
    model::{digest::Digest, object::ObjectRef, verdict::Finding},
    record::delaying_queue::{DelayingQueue, QueueEntry},
    telemetry::Span,
};

/// The namespace of Events about cluster-scoped objects, as the API requires.
pub(super) const CLUSTER_SCOPED: &str = "default";

/// What happened to one violation of an object, and when.
#[derive(Debug)]
pub(super) struct ViolationChange {
    pub(super) object: Arc<ObjectRef>,
    pub(super) violation: Violation,
    pub(super) lifecycle: Lifecycle,
    pub(super) at: Timestamp,
}

impl ViolationChange {
    /// Returns the key of Events about the same object, rule and message, whatever the outcome.
    fn key(&self) -> Digest {
        let Finding { rule, message, .. } = &self.violation.finding;
        Digest::of_parts(u64::to_be_bytes, [&*self.object.uid, &*rule.policy, &*rule.name, &**message])
    }
}

/// What an Event is about.
#[derive(Debug)]
pub(super) enum EventContent {
    /// A change of a violation.
    Violation(Box<ViolationChange>),
    /// An Event about kaudit itself or an exception; it replaces a waiting one with the same subject.
    Own(String, Box<Event>),
}

impl EventContent {
    /// Returns the namespace that the Event is written to.
    pub(super) fn namespace(&self) -> &str {
        match self {
            Self::Violation(change) => change.object.namespace.as_deref().unwrap_or(CLUSTER_SCOPED),
            Self::Own(_, event) => event.metadata.namespace.as_deref().unwrap_or(CLUSTER_SCOPED),
        }
    }

    fn is_transient(&self) -> bool {
        matches!(self, Self::Violation(change) if change.lifecycle == Lifecycle::Happened)
    }
}

/// The order of writing, first to last; Events of one priority are written in turns by namespace, those of one
/// namespace in the order of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Priority {
    /// A recent change of an object.
    Change,
    /// An Event about kaudit itself.
    Own,
    /// Part of what was found together: at the initial sync, or under new policies.
    Backlog,
}

/// An Event to write.
#[derive(Debug)]
pub(super) struct PendingEvent {
    pub(super) content: EventContent,
    pub(super) priority: Priority,
    /// When it was queued; if that is in the future, it waits until then.
    pub(super) queued: Instant,
    /// Whether an attempt was made to write it: the server may have it.
    pub(super) tried: bool,
    /// The span of the change that caused it.
    pub(super) span: Span,
}

/// The turn of an Event among those of its priority: the turn that was current when it was queued, and one more for
/// each waiting Event of its namespace.
type NamespaceTurn = u64;

/// The turns of one priority.
#[derive(Debug, Default)]
struct NamespaceTurns {
    now: NamespaceTurn,
    /// The last turn of each namespace with Events that wait.
    last: HashMap<String, NamespaceTurn>,
}

impl NamespaceTurns {
    /// Returns the turn of one more Event of a namespace.
    fn next(&mut self, namespace: &str) -> NamespaceTurn {
        let turn = self.last.get(namespace).map_or(self.now, |last| (last + 1).max(self.now));
        self.last.insert(namespace.to_owned(), turn);
        turn
    }

    /// Notes that this turn has come.
    fn reach(&mut self, turn: NamespaceTurn) {
        if turn > self.now {
            self.now = turn;
            self.last.retain(|_, last| *last >= turn);
        }
    }
}

/// An Event that was taken from the queue.
pub(super) type TakenEvent = QueueEntry<Digest, (Priority, NamespaceTurn), PendingEvent>;

/// Events to write, by priority, turn and time.
#[derive(Debug, Default)]
pub(super) struct EventQueue {
    events: DelayingQueue<Digest, (Priority, NamespaceTurn), PendingEvent>,
    turns: BTreeMap<Priority, NamespaceTurns>,
    /// How many Events about transitions wait.
    transient: usize,
}

impl EventQueue {
    /// Adds an Event; returns whether there is room for it.
    pub(super) fn push(&mut self, event: PendingEvent) -> bool {
        if event.content.is_transient() && self.transient == MOST_TRANSITIONS {
            return false;
        }
        self.transient += usize::from(event.content.is_transient());
        let key = match &event.content {
            EventContent::Violation(change) => change.key(),
            EventContent::Own(subject, _) => {
                let key = Digest::of(subject);
                self.events.remove_last(&key, |_| true);
                key
            }
        };
        let turn = self.turns.entry(event.priority).or_default().next(event.content.namespace());
        let (priority, queued) = (event.priority, event.queued);
        self.events.push(&key, (priority, turn), event, queued);
        true
    }

    /// Removes the Event about the appearance of a violation that is resolved, and returns whether it did. Events that
    /// were tried stay: the server may have them, so the resolution needs an Event, too.
    pub(super) fn supersede(&mut self, end: &ViolationChange) -> bool {
        let appearance = (end.violation.id, end.violation.since, Lifecycle::Appeared);
        let is_appearance = |event: &PendingEvent| match &event.content {
            EventContent::Violation(change) => {
                !event.tried && (change.violation.id, change.violation.since, change.lifecycle) == appearance
            }
            EventContent::Own(..) => false,
        };
        self.events.remove_last(&end.key(), is_appearance).is_some()
    }

    /// Returns when the next Event may be written, and its priority; `None` if none waits.
    pub(super) fn next(&mut self, now: Instant) -> Option<(Instant, Priority)> {
        self.events.next(now).map(|(due, (priority, _))| (due, priority))
    }

    /// Takes the next Event, which must then be put back or finished.
    pub(super) fn pop(&mut self, now: Instant) -> Option<TakenEvent> {
        loop {
            let mut event = self.events.pop(now)?;
            let (priority, turn) = event.rank;
            let turns = self.turns.entry(priority).or_default();
            if turn >= turns.now {
                self.transient -= usize::from(event.value.content.is_transient());
                return Some(event);
            }
            // Its turn has passed while it waited. It gets a new one, so that many such Events do not delay others.
            event.rank = (priority, turns.next(event.value.content.namespace()));
            self.events.put_back(event, now);
        }
    }

    /// Puts an Event back, to wait until `due`. It keeps its turn, which counts only once the Event is finished.
    pub(super) fn put_back(&mut self, event: TakenEvent, due: Instant) {
        self.transient += usize::from(event.value.content.is_transient());
        self.events.put_back(event, due);
    }

    /// Notes that an Event that was taken is written, or never will be.
    pub(super) fn finish(&mut self, event: &TakenEvent) {
        let (priority, turn) = event.rank;
        self.turns.entry(priority).or_default().reach(turn);
        self.events.done(&event.key);
    }

    /// Makes every delayed Event ready.
    pub(super) fn expedite(&mut self, now: Instant) {
        self.events.expedite(now);
    }

    /// Returns how many Events wait.
    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    /// Counts the Events about violations that have waited since before `queued`, by namespace.
    pub(super) fn waiting_since(&self, queued: Instant) -> BTreeMap<Option<Arc<str>>, usize> {
        let mut counts = BTreeMap::new();
        for event in self.events.values() {
            if let EventContent::Violation(change) = &event.content
                && event.queued < queued
            {
                *counts.entry(change.object.namespace.clone()).or_default() += 1;
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::LazyLock, time::Duration};

    use super::*;
    use crate::model::verdict::Outcome;

    /// When the Events are queued.
    static NOW: LazyLock<Instant> = LazyLock::new(Instant::now);

    fn violation(message: &str, since: i64) -> Violation {
        Violation::new(&ObjectRef::sample(), Finding::sample(message), Timestamp::from_second(since).unwrap())
    }

    fn change(message: &str, since: i64, lifecycle: Lifecycle) -> ViolationChange {
        let (object, violation) = (Arc::new(ObjectRef::sample()), violation(message, since));
        ViolationChange { object, violation, lifecycle, at: Timestamp::UNIX_EPOCH }
    }

    /// The resolution of a violation that appeared at `since`.
    fn end(message: &str, since: i64) -> ViolationChange {
        change(message, since, Lifecycle::Resolved)
    }

    fn event(message: &str, since: i64, lifecycle: Lifecycle, priority: Priority) -> PendingEvent {
        PendingEvent {
            content: EventContent::Violation(Box::new(change(message, since, lifecycle))),
            priority,
            queued: *NOW,
            tried: false,
            span: Span::default(),
        }
    }

    fn own(subject: &str, note: &str) -> PendingEvent {
        let event = Event { note: Some(note.to_owned()), ..Event::default() };
        let content = EventContent::Own(subject.to_owned(), Box::new(event));
        PendingEvent { content, priority: Priority::Own, queued: *NOW, tried: false, span: Span::default() }
    }

    fn text(event: &PendingEvent) -> String {
        match &event.content {
            EventContent::Violation(change) => change.violation.finding.message.to_string(),
            EventContent::Own(_, event) => event.note.clone().unwrap(),
        }
    }

    /// Takes and finishes the next Event.
    fn next(queue: &mut EventQueue, now: Instant) -> Option<String> {
        let event = queue.pop(now)?;
        queue.finish(&event);
        Some(text(&event.value))
    }

    fn drain(queue: &mut EventQueue, now: Instant) -> Vec<String> {
        std::iter::from_fn(|| next(queue, now)).collect()
    }

    fn is_empty(queue: &EventQueue) -> bool {
        queue.len() == 0 && queue.events.in_flight().is_empty() && queue.transient == 0
    }

    #[test]
    fn changes_go_before_the_backlog_and_events_about_kaudit_between() {
        let (mut queue, now) = (EventQueue::default(), *NOW);
        for message in ["a", "b"] {
            queue.push(event(message, 0, Lifecycle::Appeared, Priority::Backlog));
        }
        queue.push(own("refused", "older"));
        queue.push(own("refused", "newer"));
        queue.push(event("c", 0, Lifecycle::Resolved, Priority::Change));
        assert_eq!((queue.len(), queue.next(now)), (4, Some((now, Priority::Change))));
        assert_eq!(drain(&mut queue, now), ["c", "newer", "a", "b"]);
        assert!(is_empty(&queue) && queue.next(now).is_none());
    }

    #[test]
    fn namespaces_take_turns_and_the_events_of_one_keep_their_order() {
        let (mut queue, now) = (EventQueue::default(), *NOW);
        let in_namespace = |name: &str, number: u32| {
            let mut event = event(&format!("{name}{number}"), 0, Lifecycle::Appeared, Priority::Backlog);
            let EventContent::Violation(change) = &mut event.content else { panic!() };
            Arc::make_mut(&mut change.object).namespace = Some(name.into());
            event
        };
        (0..1_000).for_each(|number| assert!(queue.push(in_namespace("loud", number))));
        (0..3).for_each(|number| assert!(queue.push(in_namespace("quiet", number))));
        let first: Vec<_> = (0..7).map(|_| next(&mut queue, now).unwrap()).collect();
        assert_eq!(first, ["loud0", "quiet0", "loud1", "quiet1", "loud2", "quiet2", "loud3"]);
        // A namespace that comes later does not catch up on past turns, and does not wait for the Events that are
        // queued.
        (0..2).for_each(|number| assert!(queue.push(in_namespace("late", number))));
        let second: Vec<_> = (0..4).map(|_| next(&mut queue, now).unwrap()).collect();
        assert_eq!(second, ["late0", "loud4", "late1", "loud5"]);
        // Nor do Events that were put back catch up on the turns that have passed.
        let later = now + Duration::from_secs(1);
        let taken: Vec<_> = (0..900).map(|_| queue.pop(now).unwrap()).collect();
        for event in taken {
            queue.put_back(event, later);
        }
        (3..50).for_each(|number| assert!(queue.push(in_namespace("quiet", number))));
        let before_wait = drain(&mut queue, now);
        assert_eq!(before_wait.len(), 994 - 900 + 47);
        (50..53).for_each(|number| assert!(queue.push(in_namespace("quiet", number))));
        let after_wait = drain(&mut queue, later);
        let quiet = after_wait.iter().rposition(|text| text.starts_with("quiet")).unwrap();
        assert!(after_wait.len() == 903 && quiet < 8, "{quiet}");
        assert!(is_empty(&queue) && queue.turns.values().all(|turns| turns.last.len() <= 1));
    }

    #[test]
    fn a_violation_resolved_before_its_event_is_written_gets_no_event() {
        let (mut queue, now) = (EventQueue::default(), *NOW);
        queue.push(event("a", 1, Lifecycle::Appeared, Priority::Backlog));
        assert!(!queue.supersede(&end("a", 2)) && !queue.supersede(&end("b", 1)), "another appearance");
        assert!(queue.supersede(&end("a", 1)) && !queue.supersede(&end("a", 1)));
        assert!(is_empty(&queue));
        // Also while it waits for a token of its object, but not when the server may have it.
        queue.push(event("a", 1, Lifecycle::Appeared, Priority::Backlog));
        let event_of_a = queue.pop(now).unwrap();
        assert!(!queue.supersede(&end("a", 1)), "it is on its way");
        queue.put_back(event_of_a, now + Duration::from_secs(1));
        assert!(queue.supersede(&end("a", 1)) && is_empty(&queue));
        queue.push(event("a", 1, Lifecycle::Appeared, Priority::Backlog));
        let mut event_of_a = queue.pop(now).unwrap();
        event_of_a.value.tried = true;
        queue.put_back(event_of_a, now);
        assert!(!queue.supersede(&end("a", 1)));
        assert_eq!(drain(&mut queue, now), ["a"]);
    }

    #[test]
    fn events_about_one_violation_are_written_one_after_the_other() {
        let (mut queue, now) = (EventQueue::default(), *NOW);
        let later = now + Duration::from_secs(1);
        queue.push(event("a", 1, Lifecycle::Resolved, Priority::Change));
        let resolved = queue.pop(now).unwrap();
        // The violation appears again, and another one of the object appears, while the resolution is being written.
        queue.push(event("a", 2, Lifecycle::Appeared, Priority::Change));
        queue.push(event("b", 2, Lifecycle::Appeared, Priority::Backlog));
        assert_eq!(drain(&mut queue, now), ["b"]);
        queue.put_back(resolved, later);
        assert_eq!((drain(&mut queue, now).len(), queue.next(now)), (0, Some((later, Priority::Change))));
        let resolved = queue.pop(later).unwrap();
        assert!(queue.pop(later).is_none());
        queue.finish(&resolved);
        assert_eq!(drain(&mut queue, later), ["a"]);
        assert!(is_empty(&queue));
        // An Event that waits behind another is superseded as usual, without releasing those behind the first one.
        queue.push(event("a", 1, Lifecycle::Resolved, Priority::Change));
        let resolved = queue.pop(now).unwrap();
        queue.push(event("a", 2, Lifecycle::Appeared, Priority::Change));
        assert!(queue.supersede(&end("a", 2)) && queue.pop(now).is_none());
        let mut delayed = event("a", 3, Lifecycle::Appeared, Priority::Change);
        delayed.queued = later;
        queue.push(delayed);
        queue.finish(&resolved);
        assert_eq!(queue.next(now), Some((later, Priority::Change)));
        queue.expedite(now);
        assert_eq!(drain(&mut queue, now), ["a"]);
        assert!(is_empty(&queue));
    }

    #[test]
    fn an_event_with_another_outcome_waits_for_the_first_one() {
        let (mut queue, now) = (EventQueue::default(), *NOW);
        queue.push(event("a", 1, Lifecycle::Appeared, Priority::Change));
        let appeared = queue.pop(now).unwrap();
        queue.push(event("a", 1, Lifecycle::Resolved, Priority::Change));
        let mut other = change("a", 2, Lifecycle::Appeared);
        let finding = Finding { outcome: Outcome::Warn, ..Finding::sample("a") };
        other.violation = Violation::new(&ObjectRef::sample(), finding, Timestamp::from_second(2).unwrap());
        let end_of_other = ViolationChange { violation: other.violation.clone(), ..end("a", 2) };
        let content = EventContent::Violation(Box::new(other));
        queue.push(PendingEvent { content, ..event("a", 2, Lifecycle::Appeared, Priority::Change) });
        assert!(queue.pop(now).is_none(), "the first may be at the server");
        queue.finish(&appeared);
        let resolved = queue.pop(now).unwrap();
        assert!(queue.pop(now).is_none());
        // Only an Event about the same violation is superseded.
        assert!(!queue.supersede(&end("a", 1)) && queue.supersede(&end_of_other));
        queue.finish(&resolved);
        assert!(is_empty(&queue));
    }

    #[test]
    fn events_that_are_put_back_keep_their_order() {
        let (mut queue, now) = (EventQueue::default(), *NOW);
        for message in ["a", "b", "c"] {
            queue.push(event(message, 0, Lifecycle::Happened, Priority::Change));
        }
        let first = queue.pop(now).unwrap();
        let later = now + Duration::from_secs(1);
        queue.put_back(first, later);
        assert_eq!(text(&queue.pop(now).unwrap().value), "b");
        assert_eq!(drain(&mut queue, later), ["a", "c"]);
    }

    #[test]
    fn queued_events_about_transitions_are_bounded() {
        let (mut queue, now) = (EventQueue::default(), *NOW);
        let more = |queue: &mut EventQueue| queue.push(event("a", 0, Lifecycle::Happened, Priority::Change));
        assert!((0..MOST_TRANSITIONS).all(|_| more(&mut queue)) && !more(&mut queue));
        assert!(queue.pop(now).is_some() && more(&mut queue) && !more(&mut queue));
        assert!(
            queue.push(event("a", 0, Lifecycle::Appeared, Priority::Change)),
            "Events about open violations are not dropped"
        );
    }

    #[test]
    fn events_that_wait_long_are_counted_by_namespace() {
        let (mut queue, later) = (EventQueue::default(), *NOW + Duration::from_secs(1));
        queue.push(event("a", 0, Lifecycle::Appeared, Priority::Backlog));
        queue.push(own("x", "x"));
        assert_eq!(Vec::from_iter(queue.waiting_since(later)), [(Some("shop".into()), 1)]);
        assert!(queue.waiting_since(later.checked_sub(Duration::from_mins(1)).unwrap()).is_empty());
    }
}
