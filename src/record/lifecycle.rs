//! What happens to a violation, and the name of each message that tells of it: an Event, or what goes to a receiver.

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    audit::ledger::{Delta, Id, Violation},
    cluster::identity::CONTROLLER,
    model::digest::Digest,
};

/// What happened to a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Lifecycle {
    /// It stands from now on.
    Appeared,
    /// It stands no longer.
    Resolved,
    /// A transition violated the policy, which is over as soon as it happened.
    #[serde(rename = "happened")]
    Transient,
}

impl Lifecycle {
    /// Returns the changes of a delta in the order in which they are reported. Resolutions come first: where only the outcome of
    /// a violation changes, the last report about its rule and message is that it is open.
    pub(super) fn of(delta: &Delta) -> impl Iterator<Item = (Self, &Violation)> {
        let Delta { appeared, transitions, resolved, .. } = delta;
        let changes = [(Self::Resolved, resolved), (Self::Transient, transitions), (Self::Appeared, appeared)];
        changes
            .into_iter()
            .flat_map(|(lifecycle, violations)| violations.iter().map(move |violation| (lifecycle, violation)))
    }

    /// Returns the word for it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Appeared => "appeared",
            Self::Resolved => "resolved",
            Self::Transient => "happened",
        }
    }

    /// Returns the name of the message that this happened to a violation, which is the same after a restart.
    pub(super) fn message_name(self, violation: &Violation) -> String {
        self.message_name_of(violation.id, violation.since)
    }

    /// Returns the same by the id of the violation and the time since when it is open.
    pub(super) fn message_name_of(self, id: Id, since: Timestamp) -> String {
        message_name(&[&id.to_string(), &since.to_string(), self.word()])
    }
}

/// Returns a name that is the same for the same message, so that none is told twice. A name made of names of objects would
/// break the server's rules for names.
pub(super) fn message_name(parts: &[&str]) -> String {
    format!("{CONTROLLER}-{:032x}", Digest::of_parts(u64::to_be_bytes, parts.iter().copied()).half())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_earlier_versions_gave() {
        // Another name would repeat every Event at an upgrade.
        assert_eq!(message_name(&["ab", "c"]), "kaudit-601d5476e2ccfe2c87a2bba7a3226597");
    }

    #[test]
    fn the_words_are_those_of_the_messages() {
        for lifecycle in [Lifecycle::Appeared, Lifecycle::Resolved, Lifecycle::Transient] {
            assert_eq!(serde_json::to_value(lifecycle).unwrap(), lifecycle.word());
        }
    }
}
