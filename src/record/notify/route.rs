//! Which notifications a receiver gets.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt as _};
use serde::Deserialize;

use super::notification::Notification;
use crate::{
    audit::ledger::Lifecycle,
    judge::dialects::gatekeeper::matching::Wildcard,
    model::verdict::{Outcome, Severity},
};

/// Which notifications a receiver gets: those that match every field that is set.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct NotificationMatch {
    /// Patterns, with `*` at either end.
    #[serde(deserialize_with = "patterns")]
    namespaces: Vec<Wildcard>,
    #[serde(deserialize_with = "selector")]
    label_selector: Option<LabelSelection>,
    #[serde(deserialize_with = "severity")]
    min_severity: Option<Severity>,
    /// Patterns of policies, or of `policy/rule`.
    #[serde(deserialize_with = "patterns")]
    policies: Vec<Wildcard>,
    #[serde(deserialize_with = "results")]
    results: BTreeSet<Outcome>,
    #[serde(deserialize_with = "events")]
    pub(super) events: BTreeSet<Lifecycle>,
}

/// A label selector, and the label keys that it reads.
#[derive(Debug)]
struct LabelSelection {
    selector: Selector,
    keys: BTreeSet<String>,
}

impl NotificationMatch {
    /// Whether a notification matches in everything but its event.
    pub(super) fn concerns(&self, notification: &Notification) -> bool {
        let Notification { result, severity, labels, .. } = notification;
        // The labels of an object that was deleted while kaudit did not run are unknown. Then no selector matches, so
        // that no wrong team is notified.
        let selected =
            |selection: &LabelSelection| labels.as_ref().is_some_and(|labels| selection.selector.matches(labels));
        self.may_concern(notification)
            && (self.results.is_empty() || self.results.contains(result))
            // The most severe sorts first.
            && self.min_severity.is_none_or(|least| severity.is_some_and(|severity| severity <= least))
            && self.label_selector.as_ref().is_none_or(selected)
    }

    /// Whether the namespace, policy and rule of a notification match. They never change during the life of a
    /// violation, unlike its other fields.
    pub(super) fn may_concern(&self, notification: &Notification) -> bool {
        let any = |patterns: &[Wildcard], texts: &[&str]| {
            patterns.is_empty() || patterns.iter().any(|pattern| texts.iter().any(|text| pattern.matches(text)))
        };
        any(&self.namespaces, &[notification.resource.namespace.as_deref().unwrap_or_default()])
            && any(&self.policies, &[&notification.policy, &notification.rule_path()])
    }

    /// Whether the receiver gets notifications of this event.
    pub(super) fn wants(&self, event: Lifecycle) -> bool {
        self.events.is_empty() || self.events.contains(&event)
    }

    /// Returns the label keys that the selector reads.
    pub(super) fn label_keys(&self) -> impl Iterator<Item = &String> {
        self.label_selector.iter().flat_map(|selection| &selection.keys)
    }
}

fn patterns<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Wildcard>, D::Error> {
    let patterns = Vec::<String>::deserialize(deserializer)?;
    Ok(patterns.iter().map(|pattern| Wildcard::new(pattern)).collect())
}

fn selector<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<LabelSelection>, D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "camelCase")]
    struct LabelSelectorDocument {
        #[serde(default)]
        match_labels: BTreeMap<String, String>,
        #[serde(default)]
        match_expressions: Vec<serde_json::Value>,
    }
    let LabelSelectorDocument { match_labels, match_expressions } = LabelSelectorDocument::deserialize(deserializer)?;
    let wrong = |why: &dyn std::fmt::Display| serde::de::Error::custom(format!("not a valid label selector: {why}"));
    let selector = serde_json::json!({"matchLabels": match_labels, "matchExpressions": match_expressions});
    let selector: LabelSelector = serde_json::from_value(selector).map_err(|why| wrong(&why))?;
    let keys = selector.match_labels.iter().flat_map(BTreeMap::keys).cloned();
    let expressions = selector.match_expressions.iter().flatten().map(|expression| expression.key.clone());
    let keys = keys.chain(expressions).collect();
    Ok(Some(LabelSelection { selector: Selector::try_from(selector).map_err(|why| wrong(&why))?, keys }))
}

fn severity<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Severity>, D::Error> {
    let word = String::deserialize(deserializer)?;
    let severity = Severity::from_word(&word);
    let unknown = || format!("{word:?} is not a severity: use critical, high, medium, low or info");
    severity.map(Some).ok_or_else(|| serde::de::Error::custom(unknown()))
}

fn results<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<BTreeSet<Outcome>, D::Error> {
    words(deserializer, &[Outcome::Fail, Outcome::Warn], Outcome::word)
}

fn events<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<BTreeSet<Lifecycle>, D::Error> {
    words(deserializer, &[Lifecycle::Appeared, Lifecycle::Resolved, Lifecycle::Happened], Lifecycle::word)
}

/// Parses a list of words; each must be the word of one of the `known` values.
fn words<'de, D: serde::Deserializer<'de>, T: Copy + Ord>(
    deserializer: D,
    known: &[T],
    word: impl Fn(T) -> &'static str,
) -> Result<BTreeSet<T>, D::Error> {
    let find = |text: String| {
        known.iter().copied().find(|known| word(*known) == text).ok_or_else(|| {
            let words: Vec<_> = known.iter().map(|known| word(*known)).collect();
            serde::de::Error::custom(format!("{text:?} is not supported: use one of {}", words.join(", ")))
        })
    };
    Vec::<String>::deserialize(deserializer)?.into_iter().map(find).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::rego::analysis::yaml;

    fn concerns(yaml: &str, change: impl Fn(&mut Notification)) -> bool {
        let matching: NotificationMatch = yaml::from_str(yaml).unwrap();
        let mut notification = Notification::sample(Lifecycle::Appeared, "a");
        change(&mut notification);
        matching.concerns(&notification)
    }

    fn labelled(text: &str) -> Arc<BTreeMap<String, String>> {
        Arc::new([("team".to_owned(), text.to_owned())].into())
    }

    #[test]
    fn notifications_that_match_every_field_are_sent() {
        let as_is = |_: &mut Notification| {};
        for (yaml, fits) in [
            ("{}", true),
            ("namespaces: [shop]", true),
            ("namespaces: [billing, 'sh*']", true),
            ("namespaces: [billing]", false),
            ("policies: ['pod_security.*']", true),
            ("policies: [pod_security.baseline/deny_privileged]", true),
            ("policies: ['*/deny_privileged']", true),
            ("policies: [pod_security]", false),
            ("results: [fail]", true),
            ("results: [warn]", false),
            ("minSeverity: high", true),
            ("minSeverity: Medium", true),
            ("minSeverity: critical", false),
            ("namespaces: [shop], results: [warn]", false),
        ] {
            assert_eq!(concerns(&format!("{{{}}}", yaml.trim_matches(['{', '}'])), as_is), fits, "{yaml}");
        }
        let cluster_scoped =
            |notification: &mut Notification| Arc::make_mut(&mut notification.resource).namespace = None;
        assert!(concerns("{}", cluster_scoped) && !concerns("namespaces: ['s*']", cluster_scoped));
        assert!(!concerns("minSeverity: info", |notification| notification.severity = None));
    }

    #[test]
    fn unknown_labels_match_no_selector() {
        let yaml = "labelSelector: {matchLabels: {team: shop}}";
        assert!(concerns(yaml, |notification| notification.labels = Some(labelled("shop"))));
        assert!(!concerns(yaml, |notification| notification.labels = Some(labelled("billing"))));
        assert!(!concerns(yaml, |notification| notification.labels = None));
        let yaml = "labelSelector: {matchExpressions: [{key: team, operator: NotIn, values: [shop]}]}";
        assert!(concerns(yaml, |notification| notification.labels = Some(labelled("billing"))));
        assert!(!concerns(yaml, |notification| notification.labels = None), "perhaps it was the team's");
        let matching: NotificationMatch = yaml::from_str(yaml).unwrap();
        assert_eq!(matching.label_keys().collect::<Vec<_>>(), ["team"]);
    }

    #[test]
    fn invalid_values_are_named() {
        let why = |yaml| yaml::from_str::<NotificationMatch>(yaml).unwrap_err().to_string();
        assert!(why("minSeverity: urgent").contains("\"urgent\" is not a severity"));
        assert!(why("results: [error]").contains("\"error\" is not supported: use one of fail, warn"));
        assert!(why("events: [gone]").contains("\"gone\" is not supported: use one of appeared, resolved, happened"));
        assert!(why("labelSelector: {team: shop}").contains("team"));
        let operator = "labelSelector: {matchExpressions: [{key: a, operator: Is}]}";
        assert!(why(operator).contains("not a valid label selector"), "{}", why(operator));
    }
}
