//! Patterns for rules, used in options, in the configuration and in exceptions.

use std::{fmt, sync::Arc};

use super::metadata::Metadata;
use crate::model::glob::Glob;

/// Matches rules by `POLICY/RULE`, or by a policy, a rule or an id alone; each may be a glob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RulePattern {
    policy: Option<Glob>,
    name: Glob,
    written: Arc<str>,
}

impl RulePattern {
    /// Parses a pattern.
    pub fn new(written: &str) -> Self {
        let written = written.trim();
        let (policy, name) = match written.split_once('/') {
            Some((policy, rule)) => (Some(Glob::new(policy)), rule),
            None => (None, written),
        };
        Self { policy, name: Glob::new(name), written: written.into() }
    }

    /// Returns the pattern as the user wrote it.
    pub(super) fn written(&self) -> &Arc<str> {
        &self.written
    }

    /// Returns a number that is higher for more precise patterns among those that match a rule of a policy: a glob, the name
    /// of the policy, and the name or an id of the rule.
    pub(super) fn precision(&self, policy: &str) -> u8 {
        match &self.policy {
            _ if self.written.contains(['*', '?']) => 0,
            None if self.name.matches(policy) => 1,
            _ => 2,
        }
    }

    /// Whether it matches a rule.
    pub fn matches(&self, policy: &str, rule: &str, metadata: &Metadata) -> bool {
        self.matches_ids(policy, rule, metadata.ids())
    }

    /// Whether it matches a rule with these ids.
    pub(crate) fn matches_ids<'a>(&self, policy: &str, rule: &str, mut ids: impl Iterator<Item = &'a str>) -> bool {
        match &self.policy {
            Some(own) => own.matches(policy) && self.name.matches(rule),
            None => self.name.matches(policy) || self.name.matches(rule) || ids.any(|id| self.name.matches(id)),
        }
    }
}

impl fmt::Display for RulePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(id: &str) -> Metadata {
        Metadata::of_id(Some(id.into()))
    }

    #[test]
    fn patterns_match_policies_rules_and_ids() {
        let matches =
            |pattern: &str| RulePattern::new(pattern).matches("images", "deny_latest_tag", &metadata("IMG-01"));
        for pattern in ["images", "deny_latest_tag", "IMG-01", "images/deny_latest_tag", "im*", "*/deny_*", "IMG-0?"] {
            assert!(matches(pattern), "{pattern}");
        }
        for pattern in ["image", "IMG-0", "images/IMG-01", "deny", "images/", "other/deny_latest_tag", ""] {
            assert!(!matches(pattern), "{pattern}");
        }
    }
}
