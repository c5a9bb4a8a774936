//! Profiles: how much of the builtin library is used.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::{builtin, sources::FileSource};
use crate::model::verdict::Severity;

/// The least severity of a rule in the profile `minimal`.
const MINIMAL: Severity = Severity::High;

/// Which rules of the builtin library are used. Other sources are not affected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// The recommended rules of severity critical and high
    Minimal,
    /// The recommended rules
    #[default]
    Default,
    /// All rules, also those that are off by default, without exceptions for system components
    Strict,
}

impl Profile {
    /// Returns its name, as in options and output.
    pub fn word(self) -> &'static str {
        match self {
            Self::Minimal => "minimal",
            Self::Default => "default",
            Self::Strict => "strict",
        }
    }

    /// Whether it contains a rule of the library with this severity.
    pub(crate) fn contains(self, severity: Option<Severity>) -> bool {
        // Severities are ordered from the most severe to the least severe.
        self != Self::Minimal || severity.is_some_and(|severity| severity <= MINIMAL)
    }

    /// Whether violations of a cluster's own components are excused.
    pub(crate) fn excuses_system(self) -> bool {
        self != Self::Strict
    }

    /// Returns the sources that it makes of the named ones: with `strict`, the whole library includes the parts that are
    /// off by default.
    pub(crate) fn sources(self, named: &[FileSource]) -> Vec<FileSource> {
        let is_extended = self == Self::Strict && named.contains(&FileSource::builtin());
        let practices = is_extended.then(|| FileSource::Builtin(builtin::PRACTICES.to_owned()));
        named.iter().cloned().chain(practices).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minimal_contains_critical_and_high_rules_and_the_others_every_rule() {
        let contains = |profile: Profile| Severity::ALL.map(|severity| profile.contains(Some(severity)));
        assert_eq!(contains(Profile::Minimal), [true, true, false, false, false]);
        assert!(!Profile::Minimal.contains(None));
        for profile in [Profile::Default, Profile::Strict] {
            assert_eq!((contains(profile), profile.contains(None)), ([true; 5], true));
        }
    }
}
