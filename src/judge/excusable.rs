//! Decides which rules a namespace may excuse with a `PolicyException`: by METADATA, else by the option `--excusable`,
//! else by the default.

use std::fmt;

use serde_json::Value;

use super::{metadata::Metadata, rule_pattern::RulePattern};
use crate::model::verdict::Severity;

/// The default threshold, which applies only to rules of the builtin library: excusing a more severe violation is a
/// decision of the platform team.
const DEFAULT_THRESHOLD: Severity = Severity::Medium;
/// The prefix of a pattern with a severity.
const SEVERITY_PREFIX: &str = "severity:";
/// The pattern that matches no rule.
const NO_RULE: &str = "none";

/// Whether a namespace may excuse violations of a rule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Excusability {
    /// No violation may be excused by a namespace, only by the operator of kaudit, with files.
    #[default]
    Never,
    /// Violations of this severity and less severe ones may be excused. The severity of a result may differ from that
    /// of its rule.
    From(Severity),
    /// Every violation may be excused.
    Always,
}

impl Excusability {
    /// Whether any violation of the rule may be excused.
    pub fn is_possible(self) -> bool {
        self != Self::Never
    }

    /// Whether a violation with this severity may be excused.
    pub fn allows(self, severity: Option<Severity>) -> bool {
        match self {
            Self::Never => false,
            Self::From(threshold) => severity.is_some_and(|severity| severity >= threshold),
            Self::Always => true,
        }
    }

    /// Returns the excusability that allows what both allow.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Never, _) | (_, Self::Never) => Self::Never,
            (Self::Always, other) | (other, Self::Always) => other,
            // Severities are ordered from the most severe to the least severe.
            (Self::From(one), Self::From(two)) => Self::From(one.max(two)),
        }
    }

    /// Returns the excusability that allows what at least one of them allows.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Never, other) | (other, Self::Never) => other,
            (Self::Always, _) | (_, Self::Always) => Self::Always,
            (Self::From(one), Self::From(two)) => Self::From(one.min(two)),
        }
    }
}

/// One value of `--excusable`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExcusablePattern {
    /// `none`: no rule; overrides the default.
    None,
    /// `severity:medium`: rules of this severity and less severe ones.
    Severity(Severity),
    /// The rules that a pattern matches.
    Rules(RulePattern),
}

impl ExcusablePattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// If the text is empty or contains an unknown severity.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() {
            return Err("the pattern is empty; use none to exclude all rules".into());
        }
        if text == NO_RULE {
            return Ok(Self::None);
        }
        let Some(word) = text.strip_prefix(SEVERITY_PREFIX) else { return Ok(Self::Rules(RulePattern::new(text))) };
        let severity = Severity::from_word(word)
            .ok_or_else(|| format!("unknown severity {word:?}: use critical, high, medium, low or info"))?;
        Ok(Self::Severity(severity))
    }

    /// Returns the rule pattern, if it is one.
    pub(super) fn rules(&self) -> Option<&RulePattern> {
        if let Self::Rules(pattern) = self { Some(pattern) } else { None }
    }

    fn of(&self, policy: &str, rule: &str, metadata: &Metadata) -> Excusability {
        match self {
            Self::Rules(pattern) if pattern.matches(policy, rule, metadata) => Excusability::Always,
            Self::Severity(threshold) => from(*threshold, metadata),
            Self::None | Self::Rules(_) => Excusability::Never,
        }
    }
}

impl fmt::Display for ExcusablePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str(NO_RULE),
            Self::Severity(severity) => write!(f, "{SEVERITY_PREFIX}{}", severity.word()),
            Self::Rules(pattern) => pattern.fmt(f),
        }
    }
}

/// Returns whether a namespace may excuse a rule; `patterns` are the values of `--excusable`, empty if the option is
/// not given. The severity in `metadata` is the effective one, after rule settings.
pub(super) fn excusability(
    patterns: &[ExcusablePattern],
    (policy, is_builtin): (&str, bool),
    rule: &str,
    metadata: &Metadata,
) -> Excusability {
    match metadata.custom.get("excusable") {
        Some(Value::Bool(true)) => Excusability::Always,
        Some(_) => Excusability::Never,
        None if patterns.is_empty() && is_builtin => from(DEFAULT_THRESHOLD, metadata),
        None => {
            let each = patterns.iter().map(|pattern| pattern.of(policy, rule, metadata));
            each.fold(Excusability::Never, Excusability::or)
        }
    }
}

/// Returns the excusability of a rule for a threshold. A rule without a severity may have any impact, so no threshold
/// includes it.
fn from(threshold: Severity, metadata: &Metadata) -> Excusability {
    let is_included = metadata.severity.is_some_and(|severity| severity >= threshold);
    if is_included { Excusability::From(threshold) } else { Excusability::Never }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::judge::{load_options::LoadOptions, rule_settings::RuleSettings, set::PolicySet, sources::FileSource};

    const OWN: &str = "package own\n\nimport rego.v1\n\n# METADATA\n# custom: {id: OWN-1, severity: low}\n\
                       deny_a contains \"a\" if input.a\n\n# METADATA\n# custom: {id: OWN-2, severity: high, excusable: true}\n\
                       deny_b contains \"b\" if input.b\n\n# METADATA\n# custom: {severity: info, excusable: false}\n\
                       deny_c contains \"c\" if input.c\n\ndeny_d contains \"d\" if input.d\n";

    /// Returns the excusable rules of the library and of a policy of the user.
    fn excusable(patterns: &[&str], settings: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("own.rego"), OWN).unwrap();
        let patterns: Vec<_> = patterns.iter().map(|text| ExcusablePattern::parse(text).unwrap()).collect();
        let mut rules = RuleSettings::parse(settings).unwrap();
        rules.extend(RuleSettings::default().with_excusable(patterns));
        let library = ["images", "rbac"].map(|part| FileSource::Builtin(part.to_owned()));
        let sources: Vec<FileSource> = library.into_iter().chain([folder.path().to_owned().into()]).collect();
        let set = PolicySet::load_with(&sources, &LoadOptions { rules, ..LoadOptions::default() }).unwrap();
        let rules = set.policies.iter().flat_map(|policy| policy.rules.iter().map(move |rule| (policy, rule)));
        let excusable = rules.filter(|(_, rule)| rule.excusable.is_possible());
        excusable.map(|(policy, rule)| format!("{}/{}", policy.name, rule.name)).collect()
    }

    #[test]
    fn by_default_rules_of_the_library_up_to_medium_severity_are_excusable() {
        let expected = [
            "images/deny_latest_tag",
            "own/deny_b",
            "rbac/deny_masters_group",
            "rbac/deny_missing_reference",
            "rbac/warn_wildcard_reads",
        ];
        let excusable: BTreeSet<String> = excusable(&[], "{}").into_iter().collect();
        assert_eq!(excusable, expected.map(str::to_owned).into());
    }

    #[test]
    fn patterns_override_the_default_and_metadata_takes_precedence() {
        assert_eq!(excusable(&["none"], "{}"), ["own/deny_b"]);
        assert_eq!(excusable(&["OWN-?"], "{}"), ["own/deny_a", "own/deny_b"]);
        assert_eq!(excusable(&["own"], "{}"), ["own/deny_a", "own/deny_b", "own/deny_d"]);
        assert_eq!(excusable(&["severity:low"], "{}").len(), 2, "a rule without a severity is below no threshold");
        let own: Vec<_> = excusable(&["own/deny_d", "severity:info"], "{}");
        assert_eq!(own, ["own/deny_b", "own/deny_d"]);
    }

    #[test]
    fn the_severity_from_settings_applies() {
        let settings = "{own/deny_a: {severity: critical}, own/deny_d: {severity: low}}";
        let own: Vec<_> = excusable(&["severity:medium"], settings);
        let own: Vec<_> = own.iter().filter(|name| name.starts_with("own/")).collect();
        assert_eq!(own, ["own/deny_b", "own/deny_d"]);
        assert!(!excusable(&[], "{images: {severity: high}}").iter().any(|name| name.starts_with("images/")));
    }

    #[test]
    fn a_threshold_applies_to_the_severity_of_a_result() {
        let from = Excusability::From(Severity::Medium);
        let allowed = [Some(Severity::High), Some(Severity::Medium), Some(Severity::Info), None];
        assert_eq!(allowed.map(|severity| from.allows(severity)), [false, true, true, false]);
        assert_eq!(from.and(Excusability::From(Severity::Low)), Excusability::From(Severity::Low));
        assert_eq!(from.or(Excusability::From(Severity::Low)), from);
        assert_eq!((from.and(Excusability::Always), from.or(Excusability::Never)), (from, from));
    }

    #[test]
    fn invalid_patterns_are_errors() {
        let error = ExcusablePattern::parse("severity:mediun").unwrap_err();
        assert_eq!(error, "unknown severity \"mediun\": use critical, high, medium, low or info");
        assert!(ExcusablePattern::parse(" ").is_err());
        for text in ["none", "severity:low", "images/*"] {
            assert_eq!(ExcusablePattern::parse(text).unwrap().to_string(), text);
        }
    }
}
