//! What happens to a violation.

use serde::Serialize;

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
