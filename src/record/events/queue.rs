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
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
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
    model::object::ObjectKey,
    telemetry::Span,
};

/// The namespace of Events about cluster-scoped objects, as the API requires.
pub(super) const CLUSTER_SCOPED: &str = "default";

/// What happened to one violation of an object, and when.
#[derive(Debug)]
pub(super) struct ViolationChange {
    pub(super) object: ObjectKey,
    pub(super) uid: Arc<str>,
    pub(super) violation: Violation,
    pub(super) lifecycle: Lifecycle,
    pub(super) at: Timestamp,
}

/// What an Event is about.
#[derive(Debug)]
pub(super) enum EventContent {
    /// A change of a violation.
    Violation(Box<ViolationChange>),
    /// An Event about kaudit itself or an exception; it replaces a waiting one with the same subject.
    Own(String, Box<Event>),
}

/// The uid of an object, and the policy, rule and message of a violation, without the outcome.
type EventStatement = [Arc<str>; 4];

impl ViolationChange {
    fn statement(&self) -> EventStatement {
        let finding = &self.violation.finding;
        [&self.uid, &finding.rule.policy, &finding.rule.name, &finding.message].map(Arc::clone)
    }
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

/// The sequence number of an Event, which it keeps when it is put back.
pub(super) type Sequence = u64;

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

#[derive(Debug)]
struct QueuedEvent {
    event: PendingEvent,
    turn: NamespaceTurn,
    /// The earliest time to write it.
    due: Option<Instant>,
    /// Whether an earlier Event with the same statement is not finished.
    behind: bool,
}

/// Events to write, by priority, turn and time.
#[derive(Debug, Default)]
pub(super) struct EventQueue {
    waiting: BTreeMap<Sequence, QueuedEvent>,
    ready: BTreeSet<(Priority, NamespaceTurn, Sequence)>,
    delayed: BTreeSet<(Instant, Sequence)>,
    /// The unfinished Events with each statement; the first waits or is being written, the others wait behind it.
    statements: HashMap<EventStatement, VecDeque<Sequence>>,
    /// The waiting Events about kaudit itself, by subject.
    own: HashMap<String, Sequence>,
    transient: usize,
    last: Sequence,
    turns: BTreeMap<Priority, NamespaceTurns>,
    /// The turns of the Events that were taken. A turn counts once its Event is finished: one that is put back has used
    /// none.
    taken: HashMap<Sequence, (Priority, NamespaceTurn)>,
}

impl EventQueue {
    /// Adds an Event; returns whether there is room for it.
    pub(super) fn push(&mut self, event: PendingEvent) -> bool {
        if event.content.is_transient() && self.transient == MOST_TRANSITIONS {
            return false;
        }
        self.last += 1;
        let behind = match &event.content {
            EventContent::Violation(change) => {
                let unfinished = self.statements.entry(change.statement()).or_default();
                unfinished.push_back(self.last);
                unfinished.len() > 1
            }
            EventContent::Own(subject, _) => {
                if let Some(older) = self.own.get(subject).copied() {
                    self.remove(older);
                }
                false
            }
        };
        let due = Some(event.queued).filter(|due| *due > Instant::now());
        let turn = self.turns.entry(event.priority).or_default().next(event.content.namespace());
        self.put(self.last, QueuedEvent { event, turn, due, behind });
        true
    }

    /// Removes the Event about the appearance of a violation that is resolved, and returns whether it did. Events that
    /// were tried stay: the server may have them, so the resolution needs an Event, too.
    pub(super) fn supersede(&mut self, end: &ViolationChange) -> bool {
        let Some(unfinished) = self.statements.get(&end.statement()) else { return false };
        let about = |sequence: &Sequence| match &self.waiting.get(sequence)?.event.content {
            EventContent::Violation(change) if change.violation.id == end.violation.id => Some((*sequence, change)),
            _ => None,
        };
        let Some((last, change)) = unfinished.iter().rev().find_map(about) else { return false };
        let is_appearance = change.lifecycle == Lifecycle::Appeared && change.violation.since == end.violation.since;
        let is_untried = self.waiting.get(&last).is_some_and(|waiting| !waiting.event.tried);
        if is_appearance
            && is_untried
            && let Some(event) = self.remove(last)
        {
            self.finish(last, &event.content);
            return true;
        }
        false
    }

    /// Returns when the next Event may be written, and its priority; `None` if none waits.
    pub(super) fn next(&mut self, now: Instant) -> Option<(Instant, Priority)> {
        self.wake(|due| due <= now);
        let delayed = || self.delayed.first().and_then(|(due, sequence)| Some((*due, self.waiting.get(sequence)?)));
        let ready = self.ready.first().map(|(priority, ..)| (now, *priority));
        ready.or_else(|| delayed().map(|(due, waiting)| (due, waiting.event.priority)))
    }

    /// Takes the next Event, which must then be put back or finished.
    pub(super) fn pop(&mut self, now: Instant) -> Option<(Sequence, PendingEvent)> {
        self.wake(|due| due <= now);
        let (priority, turn, sequence) = self.ready.first().copied()?;
        let event = self.remove(sequence)?;
        self.taken.insert(sequence, (priority, turn));
        Some((sequence, event))
    }

    /// Puts an Event back, to wait until `due`.
    pub(super) fn put_back(&mut self, sequence: Sequence, event: PendingEvent, due: Instant) {
        let turn = self.taken.remove(&sequence).map_or(0, |(_, turn)| turn);
        self.put(sequence, QueuedEvent { event, turn, due: Some(due), behind: false });
    }

    /// Notes that an Event that was taken is written, or never will be.
    pub(super) fn finish(&mut self, sequence: Sequence, content: &EventContent) {
        if let Some((priority, turn)) = self.taken.remove(&sequence) {
            self.turns.entry(priority).or_default().reach(turn);
        }
        let EventContent::Violation(change) = content else { return };
        let statement = change.statement();
        let Some(unfinished) = self.statements.get_mut(&statement) else { return };
        unfinished.retain(|known| *known != sequence);
        let next = unfinished.front().copied();
        if next.is_none() {
            self.statements.remove(&statement);
        }
        if let Some(next) = next
            && let Some(QueuedEvent { event, turn, due, behind }) = self.waiting.get_mut(&next)
            && std::mem::replace(behind, false)
        {
            let (due, priority, turn) = (*due, event.priority, *turn);
            self.line_up(next, due, (priority, turn));
        }
    }

    /// Makes every delayed Event ready now.
    pub(super) fn expedite(&mut self) {
        self.wake(|_| true);
        self.waiting.values_mut().for_each(|waiting| waiting.due = None);
    }

    fn wake(&mut self, is_due: impl Fn(Instant) -> bool) {
        while self.delayed.first().is_some_and(|(due, _)| is_due(*due)) {
            let Some((_, sequence)) = self.delayed.pop_first() else { return };
            if let Some(waiting) = self.waiting.get_mut(&sequence) {
                waiting.due = None;
                let turns = self.turns.entry(waiting.event.priority).or_default();
                if waiting.turn < turns.now {
                    // Its turn has passed while it waited. It gets a new one, so that many such Events do not delay
                    // others.
                    waiting.turn = turns.next(waiting.event.content.namespace());
                }
                self.ready.insert((waiting.event.priority, waiting.turn, sequence));
            }
        }
    }

    /// Returns how many Events wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Counts the Events about violations that have waited since before `queued`, by namespace.
    pub(super) fn waiting_since(&self, queued: Instant) -> BTreeMap<Option<Arc<str>>, usize> {
        let mut counts = BTreeMap::new();
        for QueuedEvent { event, .. } in self.waiting.values() {
            if let EventContent::Violation(change) = &event.content
                && event.queued < queued
            {
                *counts.entry(change.object.namespace.clone()).or_default() += 1;
            }
        }
        counts
    }

    fn put(&mut self, sequence: Sequence, queued: QueuedEvent) {
        self.transient += usize::from(queued.event.content.is_transient());
        if let EventContent::Own(subject, _) = &queued.event.content {
            self.own.insert(subject.clone(), sequence);
        }
        if !queued.behind {
            self.line_up(sequence, queued.due, (queued.event.priority, queued.turn));
        }
        self.waiting.insert(sequence, queued);
    }

    fn line_up(&mut self, sequence: Sequence, due: Option<Instant>, (priority, turn): (Priority, NamespaceTurn)) {
        match due {
            Some(due) => self.delayed.insert((due, sequence)),
            None => self.ready.insert((priority, turn, sequence)),
        };
    }

    fn remove(&mut self, sequence: Sequence) -> Option<PendingEvent> {
        let QueuedEvent { event, turn, due, .. } = self.waiting.remove(&sequence)?;
        self.transient -= usize::from(event.content.is_transient());
        if let EventContent::Own(subject, _) = &event.content {
            self.own.remove(subject);
        }
        match due {
            Some(due) => self.delayed.remove(&(due, sequence)),
            None => self.ready.remove(&(event.priority, turn, sequence)),
        };
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        audit::ledger::Subject,
        model::{
            object::Kind,
            verdict::{Finding, Outcome},
        },
    };

    fn violation(message: &str, since: i64) -> Violation {
        Violation::new(Subject::SAMPLE, Finding::sample(message), Timestamp::from_second(since).unwrap())
    }

    fn change(message: &str, since: i64, lifecycle: Lifecycle) -> ViolationChange {
        let object =
            ObjectKey { kind: Kind::sample("", "pods", "Pod"), namespace: Some("n".into()), name: "a".into(), copy: 0 };
        let violation = violation(message, since);
        ViolationChange { object, uid: "u".into(), violation, lifecycle, at: Timestamp::UNIX_EPOCH }
    }

    /// The resolution of a violation that appeared at `since`.
    fn end(message: &str, since: i64) -> ViolationChange {
        change(message, since, Lifecycle::Resolved)
    }

    fn event(message: &str, since: i64, lifecycle: Lifecycle, priority: Priority) -> PendingEvent {
        PendingEvent {
            content: EventContent::Violation(Box::new(change(message, since, lifecycle))),
            priority,
            queued: Instant::now(),
            tried: false,
            span: Span::default(),
        }
    }

    fn own(subject: &str, note: &str) -> PendingEvent {
        let event = Event { note: Some(note.to_owned()), ..Event::default() };
        let content = EventContent::Own(subject.to_owned(), Box::new(event));
        PendingEvent { content, priority: Priority::Own, queued: Instant::now(), tried: false, span: Span::default() }
    }

    fn text(event: &PendingEvent) -> String {
        match &event.content {
            EventContent::Violation(change) => change.violation.finding.message.to_string(),
            EventContent::Own(_, event) => event.note.clone().unwrap(),
        }
    }

    fn drain(queue: &mut EventQueue, now: Instant) -> Vec<String> {
        let mut next = || {
            let (sequence, event) = queue.pop(now)?;
            queue.finish(sequence, &event.content);
            Some(text(&event))
        };
        std::iter::from_fn(&mut next).collect()
    }

    fn is_empty(queue: &EventQueue) -> bool {
        queue.len() == 0
            && queue.ready.is_empty()
            && queue.delayed.is_empty()
            && queue.own.is_empty()
            && queue.statements.is_empty()
            && queue.taken.is_empty()
    }

    #[test]
    fn changes_go_before_the_backlog_and_events_about_kaudit_between() {
        let (mut queue, now) = (EventQueue::default(), Instant::now());
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
        let (mut queue, now) = (EventQueue::default(), Instant::now());
        let in_namespace = |name: &str, number: u32| {
            let mut event = event(&format!("{name}{number}"), 0, Lifecycle::Appeared, Priority::Backlog);
            let EventContent::Violation(change) = &mut event.content else { panic!() };
            change.object.namespace = Some(name.into());
            event
        };
        (0..1_000).for_each(|number| assert!(queue.push(in_namespace("loud", number))));
        (0..3).for_each(|number| assert!(queue.push(in_namespace("quiet", number))));
        let pop = |queue: &mut EventQueue| {
            let (sequence, event) = queue.pop(now).unwrap();
            queue.finish(sequence, &event.content);
            text(&event)
        };
        let first: Vec<_> = (0..7).map(|_| pop(&mut queue)).collect();
        assert_eq!(first, ["loud0", "quiet0", "loud1", "quiet1", "loud2", "quiet2", "loud3"]);
        // A namespace that comes later does not catch up on past turns, and does not wait for the Events that are
        // queued.
        (0..2).for_each(|number| assert!(queue.push(in_namespace("late", number))));
        let next: Vec<_> = (0..4).map(|_| pop(&mut queue)).collect();
        assert_eq!(next, ["late0", "loud4", "late1", "loud5"]);
        // Nor do Events that were put back catch up on the turns that have passed.
        let later = now + Duration::from_secs(1);
        let taken: Vec<_> = (0..900).map(|_| queue.pop(now).unwrap()).collect();
        for (sequence, event) in taken {
            queue.put_back(sequence, event, later);
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
        let (mut queue, now) = (EventQueue::default(), Instant::now());
        queue.push(event("a", 1, Lifecycle::Appeared, Priority::Backlog));
        assert!(!queue.supersede(&end("a", 2)) && !queue.supersede(&end("b", 1)), "another appearance");
        assert!(queue.supersede(&end("a", 1)) && !queue.supersede(&end("a", 1)));
        assert!(is_empty(&queue));
        // Also while it waits for a token of its object, but not when the server may have it.
        queue.push(event("a", 1, Lifecycle::Appeared, Priority::Backlog));
        let (sequence, waits) = queue.pop(now).unwrap();
        assert!(!queue.supersede(&end("a", 1)), "it is on its way");
        queue.put_back(sequence, waits, now + Duration::from_secs(1));
        assert!(queue.supersede(&end("a", 1)) && is_empty(&queue));
        queue.push(event("a", 1, Lifecycle::Appeared, Priority::Backlog));
        let (sequence, waits) = queue.pop(now).unwrap();
        queue.put_back(sequence, PendingEvent { tried: true, ..waits }, now);
        assert!(!queue.supersede(&end("a", 1)));
        assert_eq!(drain(&mut queue, now), ["a"]);
    }

    #[test]
    fn events_about_one_violation_are_written_one_after_the_other() {
        let (mut queue, now) = (EventQueue::default(), Instant::now());
        let later = now + Duration::from_secs(1);
        queue.push(event("a", 1, Lifecycle::Resolved, Priority::Change));
        let (first, resolved) = queue.pop(now).unwrap();
        // The violation appears again, and another one of the object appears, while the resolution is being written.
        queue.push(event("a", 2, Lifecycle::Appeared, Priority::Change));
        queue.push(event("b", 2, Lifecycle::Appeared, Priority::Backlog));
        assert_eq!(drain(&mut queue, now), ["b"]);
        queue.put_back(first, resolved, later);
        assert_eq!((drain(&mut queue, now).len(), queue.next(now)), (0, Some((later, Priority::Change))));
        let (first, resolved) = queue.pop(later).unwrap();
        assert!(queue.pop(later).is_none());
        queue.finish(first, &resolved.content);
        assert_eq!(drain(&mut queue, later), ["a"]);
        assert!(is_empty(&queue));
        // An Event that waits behind another is superseded as usual, without releasing those behind the first one.
        queue.push(event("a", 1, Lifecycle::Resolved, Priority::Change));
        let (first, resolved) = queue.pop(now).unwrap();
        queue.push(event("a", 2, Lifecycle::Appeared, Priority::Change));
        assert!(queue.supersede(&end("a", 2)) && queue.pop(now).is_none());
        let mut delayed = event("a", 3, Lifecycle::Appeared, Priority::Change);
        delayed.queued = later;
        queue.push(delayed);
        queue.finish(first, &resolved.content);
        assert_eq!(queue.next(now), Some((later, Priority::Change)));
        queue.expedite();
        assert_eq!(drain(&mut queue, now), ["a"]);
        assert!(is_empty(&queue));
    }

    #[test]
    fn an_event_with_another_outcome_waits_for_the_first_one() {
        let (mut queue, now) = (EventQueue::default(), Instant::now());
        queue.push(event("a", 1, Lifecycle::Appeared, Priority::Change));
        let (first, appeared) = queue.pop(now).unwrap();
        queue.push(event("a", 1, Lifecycle::Resolved, Priority::Change));
        let mut other = change("a", 2, Lifecycle::Appeared);
        let finding = Finding { outcome: Outcome::Warn, ..Finding::sample("a") };
        other.violation = Violation::new(Subject::SAMPLE, finding, Timestamp::from_second(2).unwrap());
        let end_of_other = ViolationChange { violation: other.violation.clone(), ..end("a", 2) };
        let content = EventContent::Violation(Box::new(other));
        queue.push(PendingEvent { content, ..event("a", 2, Lifecycle::Appeared, Priority::Change) });
        assert!(queue.pop(now).is_none(), "the first may be at the server");
        queue.finish(first, &appeared.content);
        let (second, resolved) = queue.pop(now).unwrap();
        assert!(queue.pop(now).is_none());
        // Only an Event about the same violation is superseded.
        assert!(!queue.supersede(&end("a", 1)) && queue.supersede(&end_of_other));
        queue.finish(second, &resolved.content);
        assert!(is_empty(&queue));
    }

    #[test]
    fn events_that_are_put_back_keep_their_order() {
        let (mut queue, now) = (EventQueue::default(), Instant::now());
        for message in ["a", "b", "c"] {
            queue.push(event(message, 0, Lifecycle::Happened, Priority::Change));
        }
        let (sequence, first) = queue.pop(now).unwrap();
        let later = now + Duration::from_secs(1);
        queue.put_back(sequence, first, later);
        assert_eq!(text(&queue.pop(now).unwrap().1), "b");
        assert_eq!(drain(&mut queue, later), ["a", "c"]);
        let (_, first) = {
            queue.push(event("d", 0, Lifecycle::Happened, Priority::Change));
            queue.pop(now).unwrap()
        };
        queue.put_back(9, first, later);
        assert_eq!((queue.next(now), drain(&mut queue, now).len()), (Some((later, Priority::Change)), 0));
        queue.expedite();
        assert_eq!(drain(&mut queue, now), ["d"]);
    }

    #[test]
    fn queued_events_about_transitions_are_bounded() {
        let (mut queue, now) = (EventQueue::default(), Instant::now());
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
        let (mut queue, later) = (EventQueue::default(), Instant::now() + Duration::from_secs(1));
        queue.push(event("a", 0, Lifecycle::Appeared, Priority::Backlog));
        queue.push(own("x", "x"));
        assert_eq!(Vec::from_iter(queue.waiting_since(later)), [(Some("n".into()), 1)]);
        assert!(queue.waiting_since(later.checked_sub(Duration::from_mins(1)).unwrap()).is_empty());
    }
}
