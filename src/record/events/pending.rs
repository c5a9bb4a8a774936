//! Events that wait to be written: those of changes before those of a snapshot, and of each violation only what is true now.
//!
//! Nothing is dropped: there is at most one Event for each violation that stands or that the cluster still says does. Only
//! what changes themselves violated is bounded, as nothing else bounds it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Instant,
};

use jiff::Timestamp;

use crate::{
    ledger::{Id, Violation},
    object::ObjectKey,
    queue::Lane,
};

/// Moments that may wait.
const MOMENTS: usize = 10_000;

/// One thing to tell.
#[derive(Debug)]
pub(super) enum Telling {
    /// Something about a violation.
    Violation(Violated),
    /// Policies are refused: the note, and when.
    PoliciesRefused(String, Timestamp),
}

/// What became of a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    Appeared,
    Resolved,
    /// It happened, and nothing of it stands.
    Happened,
}

/// A violation of which something is to be told.
#[derive(Debug, Clone)]
pub(super) struct Violated {
    pub(super) object: ObjectKey,
    pub(super) uid: Arc<str>,
    pub(super) violation: Violation,
    pub(super) turn: Turn,
    pub(super) at: Timestamp,
    pub(super) queued: Instant,
}

/// What became of something that was to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waits {
    Yes,
    /// Two that contradict each other: neither needs to be told any more.
    Superseded,
    /// There is no room for it.
    Dropped,
}

/// Where something stands: changes first, then by age.
type Place = (bool, u64);

#[derive(Debug, Default)]
pub(super) struct Pending {
    queue: BTreeMap<Place, Telling>,
    /// Where what is known of each violation waits.
    places: HashMap<Id, Place>,
    moments: usize,
    next: u64,
}

impl Pending {
    pub(super) fn push(&mut self, telling: Telling, lane: Lane) -> Waits {
        let place = (lane == Lane::Snapshot, self.next);
        if let Telling::Violation(violated) = &telling {
            let id = violated.violation.id;
            if violated.turn == Turn::Happened {
                if self.moments == MOMENTS {
                    return Waits::Dropped;
                }
                self.moments += 1;
            } else if let Some(other) = self.places.remove(&id) {
                // Appeared and resolved go by turns, so this is the contrary.
                self.queue.remove(&other);
                return Waits::Superseded;
            } else {
                self.places.insert(id, place);
            }
        }
        self.next += 1;
        self.queue.insert(place, telling);
        Waits::Yes
    }

    /// Takes out what waits about a violation; whether there was something.
    pub(super) fn withdraw(&mut self, id: Id) -> bool {
        self.places.remove(&id).and_then(|place| self.queue.remove(&place)).is_some()
    }

    pub(super) fn pop(&mut self) -> Option<Telling> {
        let (_, telling) = self.queue.pop_first()?;
        if let Telling::Violation(violated) = &telling {
            match violated.turn {
                Turn::Happened => self.moments -= 1,
                Turn::Appeared | Turn::Resolved => {
                    self.places.remove(&violated.violation.id);
                }
            }
        }
        Some(telling)
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        object::Kind,
        verdict::{Finding, Outcome, Source},
    };

    fn told(message: &str, turn: Turn) -> Telling {
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
        let object = ObjectKey { kind: Kind::sample("", "pods", "Pod"), namespace: None, name: "a".into(), copy: 0 };
        let (id, since) = (Id::new("u", &finding), Timestamp::UNIX_EPOCH);
        let violation = Violation { id, finding, since };
        Telling::Violation(Violated { object, uid: "u".into(), violation, turn, at: since, queued: Instant::now() })
    }

    fn next(pending: &mut Pending) -> Option<String> {
        match pending.pop()? {
            Telling::Violation(violated) => Some(violated.violation.finding.message.to_string()),
            Telling::PoliciesRefused(note, _) => Some(note),
        }
    }

    #[test]
    fn changes_overtake_a_snapshot() {
        let mut pending = Pending::default();
        for message in ["a", "b"] {
            assert_eq!(pending.push(told(message, Turn::Appeared), Lane::Snapshot), Waits::Yes);
        }
        assert_eq!(pending.push(told("c", Turn::Appeared), Lane::Change), Waits::Yes);
        let all: Vec<_> = std::iter::from_fn(|| next(&mut pending)).collect();
        assert_eq!((all, pending.places.len()), (vec!["c".to_owned(), "a".to_owned(), "b".to_owned()], 0));
    }

    #[test]
    fn what_is_not_true_any_more_is_not_told() {
        let mut pending = Pending::default();
        pending.push(told("a", Turn::Appeared), Lane::Snapshot);
        assert_eq!(pending.push(told("a", Turn::Resolved), Lane::Change), Waits::Superseded);
        assert_eq!((pending.len(), next(&mut pending)), (0, None));
        // The cluster says that it appeared, so this is to be told.
        assert_eq!(pending.push(told("a", Turn::Resolved), Lane::Change), Waits::Yes);
        assert_eq!(pending.push(told("a", Turn::Appeared), Lane::Change), Waits::Superseded);
        assert_eq!(pending.len(), 0);
        let Telling::Violation(violated) = told("b", Turn::Appeared) else { unreachable!() };
        pending.push(Telling::Violation(violated.clone()), Lane::Snapshot);
        assert!(pending.withdraw(violated.violation.id) && !pending.withdraw(violated.violation.id));
        assert!(pending.pop().is_none());
    }

    #[test]
    fn moments_are_all_told_within_bounds() {
        let mut pending = Pending::default();
        for _ in 0..MOMENTS {
            assert_eq!(pending.push(told("a", Turn::Happened), Lane::Change), Waits::Yes);
        }
        assert_eq!(pending.push(told("a", Turn::Happened), Lane::Change), Waits::Dropped);
        assert!(next(&mut pending).is_some());
        assert_eq!(pending.push(told("a", Turn::Happened), Lane::Change), Waits::Yes);
    }
}
