//! The annotations, counts and sources of an audit's rules.

use std::collections::BTreeMap;

use crate::{
    audit::result::{About, AuditResult, Entry, PolicySummary},
    judge::rule::RuleText,
    model::rule_counts::RuleCounts,
};

/// The policies of an audit, by name.
pub(super) struct RuleCatalog<'r>(BTreeMap<&'r str, &'r PolicySummary>);

impl<'r> RuleCatalog<'r> {
    pub(super) fn of(result: &'r AuditResult) -> Self {
        Self(result.policies.iter().map(|policy| (policy.name.as_str(), policy)).collect())
    }

    /// Returns the annotations of a rule; `None` if the policy is not in force.
    pub(super) fn about(&self, policy: &str, rule: &str) -> Option<&'r About> {
        Some(self.0.get(policy)?.about_rule(rule))
    }

    /// Returns the counts of the objects that a rule applies to, if known.
    pub(super) fn objects(&self, policy: &str, rule: &str) -> Option<RuleCounts> {
        self.0.get(policy)?.objects.get(rule).copied()
    }

    /// Returns the definitions of a rule, if known.
    pub(super) fn texts(&self, policy: &str, rule: &str) -> &'r [RuleText] {
        self.0.get(policy).and_then(|policy| policy.texts.get(rule)).map_or(&[], Vec::as_slice)
    }

    /// Returns the definition that a result comes from; for a Constraint, the first of its template.
    pub(super) fn text(&self, entry: &Entry) -> Option<&'r str> {
        let texts = self.texts(&entry.policy, &entry.rule);
        texts.iter().find(|text| text.source == entry.source).or(texts.first()).map(|text| &*text.text)
    }
}

/// Returns the first web link that needs no escaping in any format.
pub(super) fn page(about: &About) -> Option<&str> {
    about.links.iter().map(|link| &*link.reference).find(|url| is_page(url))
}

/// Whether this is a web URL without brackets or other characters that could end a link in some format.
pub(super) fn is_page(url: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/?#@!$&+,;=%".contains(&byte);
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let encoded =
        |at: usize| url.as_bytes().get(at + 1..at + 3).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit));
    rest.is_some_and(|rest| {
        rest.starts_with(|first: char| first.is_ascii_alphanumeric())
            && rest.bytes().all(plain)
            && rest.matches('#').count() < 2
    }) && url.match_indices('%').all(|(at, _)| encoded(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_web_links_are_accepted() {
        for url in ["https://example.com", "http://example.com/a%20b?c=d&e#f"] {
            assert!(is_page(url), "{url}");
        }
        for url in [
            "",
            "javascript:alert(1)",
            "https://",
            "https://a b",
            "https://a%2",
            "https://a#b#c",
            "https://a)[x](b",
            "https:///a",
        ] {
            assert!(!is_page(url), "{url}");
        }
    }
}
