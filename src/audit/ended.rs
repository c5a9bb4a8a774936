//! The violations that were resolved last.
//!
//! In: every delta, also while another process records. Out: the violations resolved within [`KEPT`] and since this process
//! began, the newest [`MOST`] of them.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};

use super::{
    ledger::Delta,
    result::{Ended, Entry},
};

/// How many are kept.
const MOST: usize = 1_000;
/// For how long one is kept.
const KEPT: SignedDuration = SignedDuration::from_hours(7 * 24);

/// The violations that were resolved last, the newest first.
#[derive(Debug, Default)]
pub(crate) struct EndedViolations(VecDeque<Ended>);

impl EndedViolations {
    /// Adds the resolved violations of a delta.
    pub(crate) fn add(&mut self, delta: &Delta, at: Timestamp) {
        let overdue = |ended: &Ended| at.duration_since(ended.at) > KEPT;
        while self.0.back().is_some_and(overdue) {
            self.0.pop_back();
        }
        for violation in &delta.resolved {
            let entry = Entry::new(&violation.finding, &delta.object, None, delta.owner.as_ref());
            self.0.push_front(Ended { at, entry: Entry { since: Some(violation.since), ..entry } });
        }
        self.0.truncate(MOST);
    }

    /// Returns them, the newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Ended> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::ledger::Violation;

    fn delta(messages: &[&str]) -> Delta {
        Delta { resolved: messages.iter().map(|message| Violation::sample(message)).collect(), ..Delta::sample() }
    }

    #[test]
    fn the_newest_are_kept_for_a_week() {
        let at = |days: i64| Timestamp::from_second(days * 86_400).unwrap();
        let mut ended = EndedViolations::default();
        let messages = |ended: &EndedViolations| -> Vec<String> {
            ended.iter().map(|ended| ended.entry.message.to_string()).collect()
        };
        ended.add(&delta(&["a"]), at(0));
        ended.add(&delta(&["b", "c"]), at(3));
        assert_eq!(messages(&ended), ["c", "b", "a"]);
        assert_eq!(ended.iter().next().unwrap().entry.since, Some(Timestamp::UNIX_EPOCH));
        ended.add(&delta(&[]), at(8));
        assert_eq!(messages(&ended), ["c", "b"]);
        ended.add(&delta(&["x"; MOST + 1]), at(9));
        assert_eq!(ended.iter().count(), MOST);
    }
}
