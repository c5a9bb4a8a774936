//! What happens to a violation.

use serde::Serialize;

use super::{Delta, Violation};

/// What happened to a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Lifecycle {
    /// It is open from now on.
    Appeared,
    /// It is no longer open.
    Resolved,
    /// A transition of the object violated the policy: reported once, never open.
    Happened,
}

impl Lifecycle {
    /// Returns the word for it in messages.
    pub fn word(self) -> &'static str {
        match self {
            Self::Appeared => "appeared",
            Self::Resolved => "resolved",
            Self::Happened => "happened",
        }
    }
}

impl Delta {
    /// Returns what happened to which violation, in the order in which it is reported. Resolutions come first: where only the
    /// outcome of a violation changes, the last report about its rule and message is that it is open.
    pub fn changes(&self) -> impl Iterator<Item = (Lifecycle, &Violation)> {
        let resolved = self.resolved.iter().map(|violation| (Lifecycle::Resolved, violation));
        let transitions = self.transitions.iter().map(|violation| (Lifecycle::Happened, violation));
        let appeared = self.appeared.iter().map(|violation| (Lifecycle::Appeared, violation));
        resolved.chain(transitions).chain(appeared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_of_the_messages() {
        for lifecycle in [Lifecycle::Appeared, Lifecycle::Resolved, Lifecycle::Happened] {
            assert_eq!(serde_json::to_value(lifecycle).unwrap(), lifecycle.word());
        }
    }
}
