//! What is to be told and is not written yet.
//!
//! Nothing of what stands is dropped. The queue is bounded by what stands and by what was told to stand: a violation that
//! is over before its Event was written has none, and neither has its end.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Instant,
};

use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;

use crate::{
    audit::ledger::{Id, Violation},
    model::object::ObjectKey,
};

/// Moments that may wait: nothing else bounds them.
const MOMENTS: usize = 10_000;
/// Where Events of cluster-scoped objects go, as the API demands.
pub(super) const CLUSTER_SCOPED: &str = "default";

/// What happened to a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// It stands from now on.
    Appeared,
    /// It stands no more.
    Resolved,
    /// A change violated it, and nothing of it stands.
    Happened,
}

/// A turn of a violation.
#[derive(Debug)]
pub(super) struct Violated {
    pub(super) object: ObjectKey,
    pub(super) uid: Arc<str>,
    pub(super) violation: Violation,
    pub(super) turn: Turn,
    pub(super) at: Timestamp,
}

/// What an Event is to be about.
#[derive(Debug)]
pub(super) enum About {
    /// A violation.
    Violation(Violated),
    /// kaudit itself: the whole Event, which takes the place of one with the same subject that waits.
    Own(String, Box<Event>),
}

impl About {
    /// Returns the namespace that its Event goes to.
    pub(super) fn namespace(&self) -> &str {
        match self {
            Self::Violation(violated) => violated.object.namespace.as_deref().unwrap_or(CLUSTER_SCOPED),
            Self::Own(_, event) => event.metadata.namespace.as_deref().unwrap_or(CLUSTER_SCOPED),
        }
    }

    fn is_moment(&self) -> bool {
        matches!(self, Self::Violation(Violated { turn: Turn::Happened, .. }))
    }
}

/// What goes before what; within a rank the order is that of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// Somebody changed an object just now.
    Change,
    /// kaudit has something to say about itself.
    Own,
    /// Part of what was found at once: at the gate, or under new policies.
    Backlog,
}

/// One Event to write.
#[derive(Debug)]
pub(super) struct Telling {
    pub(super) about: About,
    pub(super) rank: Rank,
    pub(super) queued: Instant,
    /// An attempt was made whose outcome is not known: it may be there.
    pub(super) tried: bool,
}

/// A place in the order of time.
pub(super) type Place = u64;

#[derive(Debug)]
struct Waiting {
    telling: Telling,
    /// Not before.
    due: Option<Instant>,
}

/// What one may take the place of another by.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Subject {
    /// A violation that appeared, and when.
    Appeared(Id, Timestamp),
    Own(String),
}

/// Events to write, in the order in which they are.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: BTreeMap<Place, Waiting>,
    ready: BTreeSet<(Rank, Place)>,
    resting: BTreeSet<(Instant, Place)>,
    /// Where what can be replaced or need not be told waits.
    subjects: HashMap<Subject, Place>,
    moments: usize,
    next: Place,
}

impl Queue {
    /// Lets something wait, if there is room for it.
    pub(super) fn push(&mut self, telling: Telling) -> bool {
        if telling.about.is_moment() && self.moments == MOMENTS {
            return false;
        }
        if let About::Own(subject, _) = &telling.about
            && let Some(older) = self.subjects.remove(&Subject::Own(subject.clone()))
        {
            self.remove(older);
        }
        self.next += 1;
        self.put(self.next, telling, None);
        true
    }

    /// Takes out that a violation appeared, if it waits and no attempt was made to write it: its end has come.
    pub(super) fn supersede(&mut self, violation: &Violation) -> bool {
        let place = self.subjects.remove(&Subject::Appeared(violation.id, violation.since));
        place.is_some_and(|place| self.remove(place).is_some())
    }

    /// Takes out what is to be written next.
    pub(super) fn pop(&mut self, now: Instant) -> Option<(Place, Telling)> {
        self.wake(|due| due <= now);
        let (_, place) = self.ready.first().copied()?;
        let telling = self.remove(place)?;
        if let Some(subject) = subject(&telling.about) {
            self.subjects.remove(&subject);
        }
        Some((place, telling))
    }

    /// Puts back what was taken out, to wait until `due`.
    pub(super) fn rest(&mut self, place: Place, telling: Telling, due: Instant) {
        self.put(place, telling, Some(due));
    }

    /// Lets nothing wait any longer for a time that has not come.
    pub(super) fn hurry(&mut self) {
        self.wake(|_| true);
    }

    fn wake(&mut self, is_due: impl Fn(Instant) -> bool) {
        while self.resting.first().is_some_and(|(due, _)| is_due(*due)) {
            let Some((_, place)) = self.resting.pop_first() else { return };
            if let Some(waiting) = self.waiting.get_mut(&place) {
                waiting.due = None;
                self.ready.insert((waiting.telling.rank, place));
            }
        }
    }

    /// When there is something to write; `None` if nothing waits.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        if self.ready.is_empty() { self.resting.first().map(|(due, _)| *due) } else { Some(now) }
    }

    /// How many Events wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Counts the Events on violations that wait since before `queued`, by namespace.
    pub(super) fn waiting_since(&self, queued: Instant) -> BTreeMap<Option<Arc<str>>, usize> {
        let mut counts = BTreeMap::new();
        for Waiting { telling, .. } in self.waiting.values() {
            if let About::Violation(violated) = &telling.about
                && telling.queued < queued
            {
                *counts.entry(violated.object.namespace.clone()).or_default() += 1;
            }
        }
        counts
    }

    fn put(&mut self, place: Place, telling: Telling, due: Option<Instant>) {
        // Once an attempt was made it may be there, so its end is to be told too.
        if let Some(subject) = subject(&telling.about).filter(|of| !telling.tried || matches!(of, Subject::Own(_))) {
            self.subjects.insert(subject, place);
        }
        self.moments += usize::from(telling.about.is_moment());
        match due {
            Some(due) => self.resting.insert((due, place)),
            None => self.ready.insert((telling.rank, place)),
        };
        self.waiting.insert(place, Waiting { telling, due });
    }

    fn remove(&mut self, place: Place) -> Option<Telling> {
        let Waiting { telling, due } = self.waiting.remove(&place)?;
        self.moments -= usize::from(telling.about.is_moment());
        match due {
            Some(due) => self.resting.remove(&(due, place)),
            None => self.ready.remove(&(telling.rank, place)),
        };
        Some(telling)
    }
}

fn subject(about: &About) -> Option<Subject> {
    match about {
        About::Violation(Violated { violation, turn: Turn::Appeared, .. }) => {
            Some(Subject::Appeared(violation.id, violation.since))
        }
        About::Violation(_) => None,
        About::Own(subject, _) => Some(Subject::Own(subject.clone())),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::{
        object::Kind,
        verdict::{Finding, Outcome, Source},
    };

    fn violation(message: &str, since: i64) -> Violation {
        let finding = Finding {
            policy: "p".into(),
            rule: "deny".into(),
            outcome: Outcome::Fail,
            severity: None,
            category: None,
            message: message.into(),
            details: None,
            source: Source { file: "p.rego".into(), line: 1 },
        };
        Violation { id: Id::new("u", &finding), finding, since: Timestamp::from_second(since).unwrap() }
    }

    fn telling(message: &str, since: i64, turn: Turn, rank: Rank) -> Telling {
        let object =
            ObjectKey { kind: Kind::sample("", "pods", "Pod"), namespace: Some("n".into()), name: "a".into(), copy: 0 };
        let violation = violation(message, since);
        let about = Violated { object, uid: "u".into(), violation, turn, at: Timestamp::UNIX_EPOCH };
        Telling { about: About::Violation(about), rank, queued: Instant::now(), tried: false }
    }

    fn own(subject: &str, note: &str) -> Telling {
        let event = Event { note: Some(note.to_owned()), ..Event::default() };
        let about = About::Own(subject.to_owned(), Box::new(event));
        Telling { about, rank: Rank::Own, queued: Instant::now(), tried: false }
    }

    fn text(telling: &Telling) -> String {
        match &telling.about {
            About::Violation(violated) => violated.violation.finding.message.to_string(),
            About::Own(_, event) => event.note.clone().unwrap(),
        }
    }

    fn drain(queue: &mut Queue, now: Instant) -> Vec<String> {
        std::iter::from_fn(|| queue.pop(now)).map(|(_, telling)| text(&telling)).collect()
    }

    fn is_empty(queue: &Queue) -> bool {
        queue.len() == 0 && queue.ready.is_empty() && queue.resting.is_empty() && queue.subjects.is_empty()
    }

    #[test]
    fn changes_go_before_the_backlog_and_own_words_between() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for message in ["a", "b"] {
            queue.push(telling(message, 0, Turn::Appeared, Rank::Backlog));
        }
        queue.push(own("refused", "older"));
        queue.push(own("refused", "newer"));
        queue.push(telling("c", 0, Turn::Resolved, Rank::Change));
        assert_eq!((queue.len(), queue.due(now)), (4, Some(now)));
        assert_eq!(drain(&mut queue, now), ["c", "newer", "a", "b"]);
        assert!(is_empty(&queue) && queue.due(now).is_none());
    }

    #[test]
    fn what_is_over_before_it_was_written_is_not_told() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.push(telling("a", 1, Turn::Appeared, Rank::Backlog));
        assert!(!queue.supersede(&violation("a", 2)) && !queue.supersede(&violation("b", 1)), "another appearance");
        assert!(queue.supersede(&violation("a", 1)) && !queue.supersede(&violation("a", 1)));
        assert!(is_empty(&queue));
        // Also while it waits for its object's turn, but not when it may be there.
        queue.push(telling("a", 1, Turn::Appeared, Rank::Backlog));
        let (place, waits) = queue.pop(now).unwrap();
        assert!(!queue.supersede(&violation("a", 1)), "it is on its way");
        queue.rest(place, waits, now + Duration::from_secs(1));
        assert!(queue.supersede(&violation("a", 1)) && is_empty(&queue));
        queue.push(telling("a", 1, Turn::Appeared, Rank::Backlog));
        let (place, waits) = queue.pop(now).unwrap();
        queue.rest(place, Telling { tried: true, ..waits }, now);
        assert!(!queue.supersede(&violation("a", 1)));
        assert_eq!(drain(&mut queue, now), ["a"]);
    }

    #[test]
    fn what_rests_keeps_its_place() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for message in ["a", "b", "c"] {
            queue.push(telling(message, 0, Turn::Happened, Rank::Change));
        }
        let (place, first) = queue.pop(now).unwrap();
        let later = now + Duration::from_secs(1);
        queue.rest(place, first, later);
        assert_eq!(text(&queue.pop(now).unwrap().1), "b");
        assert_eq!(drain(&mut queue, later), ["a", "c"]);
        let (_, first) = {
            queue.push(telling("d", 0, Turn::Happened, Rank::Change));
            queue.pop(now).unwrap()
        };
        queue.rest(9, first, later);
        assert_eq!((queue.due(now), drain(&mut queue, now).len()), (Some(later), 0));
        queue.hurry();
        assert_eq!(drain(&mut queue, now), ["d"]);
    }

    #[test]
    fn moments_are_bounded() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let more = |queue: &mut Queue| queue.push(telling("a", 0, Turn::Happened, Rank::Change));
        assert!((0..MOMENTS).all(|_| more(&mut queue)) && !more(&mut queue));
        assert!(queue.pop(now).is_some() && more(&mut queue) && !more(&mut queue));
        assert!(queue.push(telling("a", 0, Turn::Appeared, Rank::Change)), "what stands is not dropped");
    }

    #[test]
    fn counts_what_waits_long_by_namespace() {
        let (mut queue, later) = (Queue::default(), Instant::now() + Duration::from_secs(1));
        queue.push(telling("a", 0, Turn::Appeared, Rank::Backlog));
        queue.push(own("x", "x"));
        assert_eq!(Vec::from_iter(queue.waiting_since(later)), [(Some("n".into()), 1)]);
        assert!(queue.waiting_since(later.checked_sub(Duration::from_mins(1)).unwrap()).is_empty());
    }
}
