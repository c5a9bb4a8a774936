//! Whether a result of a dependent is the same violation as a result of its owner.
//!
//! It is if policy, rule and outcome are equal, and message and details are equal but for what differs between an object
//! and the template that it was made from:
//!
//! - its name and kind, where the owner's text has the owner's: `Pod web-5d8f-x2k4p runs as root`, `Deployment web runs as
//!   root`;
//! - the path of a field: `spec.containers[0].image` of a Pod is `spec.template.spec.containers[0].image` of its Deployment;
//! - in the details, the index of a path, as an injected container may come before those of the template. Messages name
//!   what they are about, or say the same of all.
//!
//! Details that only one side has are not compared, nor is `patch`, which contains paths of its own form.

use std::borrow::Cow;

use serde_json::Value;

use crate::model::{
    object::ObjectKey,
    verdict::{Finding, Outcome},
};

/// How exactly paths in details have to be equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathEquality {
    /// With the same indexes.
    Exact,
    /// Whatever the indexes are.
    AnyIndex,
}

/// An object and one of its owners.
#[derive(Debug, Clone, Copy)]
pub(super) struct OwnerPair<'a> {
    pub(super) dependent: &'a ObjectKey,
    pub(super) owner: &'a ObjectKey,
}

impl OwnerPair<'_> {
    /// Whether a finding about the dependent is the same violation as one about the owner.
    pub(super) fn is_same(self, dependents: &Finding, owners: &Finding, paths: PathEquality) -> bool {
        fn class(Finding { rule, outcome, .. }: &Finding) -> (&str, &str, Outcome) {
            (&rule.policy, &rule.name, *outcome)
        }
        class(dependents) == class(owners)
            && self.is_same_text(&dependents.message, &owners.message, PathEquality::Exact)
            && match (&dependents.details, &owners.details) {
                (Some(mine), Some(others)) => {
                    let is_evidence = |(key, _): &(&String, &Value)| *key != "patch";
                    mine.len() == others.len()
                        && mine
                            .iter()
                            .filter(is_evidence)
                            .all(|(key, value)| self.is_same_entry(value, others.get(key), paths))
                }
                _ => true,
            }
    }

    fn is_same_entry(self, value: &Value, owners: Option<&Value>, paths: PathEquality) -> bool {
        owners.is_some_and(|owners| self.is_same_value(value, owners, paths))
    }

    fn is_same_value(self, value: &Value, owners: &Value, paths: PathEquality) -> bool {
        match (value, owners) {
            (Value::String(text), Value::String(other)) => self.is_same_text(text, other, paths),
            (Value::Array(items), Value::Array(others)) => {
                let same = |(item, other)| self.is_same_value(item, other, paths);
                items.len() == others.len() && items.iter().zip(others).all(same)
            }
            (Value::Object(entries), Value::Object(others)) => {
                let same = |(key, value): (&String, _)| self.is_same_entry(value, others.get(key), paths);
                entries.len() == others.len() && entries.iter().all(same)
            }
            _ => value == owners,
        }
    }

    /// Compares two texts from left to right, a word with its counterpart where both have one.
    fn is_same_text(self, dependents: &str, owners: &str, paths: PathEquality) -> bool {
        if dependents == owners {
            return true;
        }
        let (mut left, mut right, mut at_word) = (dependents, owners, true);
        loop {
            if at_word && let Some(behind) = self.behind_counterparts(left, right, paths) {
                (left, right) = behind;
                at_word = false;
                continue;
            }
            let (mut rest, mut others) = (left.chars(), right.chars());
            match (rest.next(), others.next()) {
                (None, None) => return true,
                (Some(c), Some(other)) if c == other => at_word = !is_of_word(c),
                _ => return false,
            }
            (left, right) = (rest.as_str(), others.as_str());
        }
    }

    /// Returns what follows if the texts begin with name and name, kind and kind, or path and path.
    fn behind_counterparts<'t>(self, left: &'t str, right: &'t str, paths: PathEquality) -> Option<(&'t str, &'t str)> {
        let Self { dependent, owner } = self;
        let names = || Some((behind_word(left, &dependent.name, false)?, behind_word(right, &owner.name, false)?));
        let kind = |key: &ObjectKey, text| behind_word(text, &key.kind.kind, true);
        let kinds = || Some((kind(dependent, left)?, kind(owner, right)?));
        names().or_else(kinds).or_else(|| behind_paths(left, right, paths))
    }
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '-' | '_')
}

/// Returns what follows a whole word.
fn behind_word<'t>(text: &'t str, word: &str, ignore_case: bool) -> Option<&'t str> {
    let (start, rest) = text.split_at_checked(word.len())?;
    let is_it = start == word || (ignore_case && start.eq_ignore_ascii_case(word));
    (is_it && !word.is_empty() && !rest.starts_with(is_of_word)).then_some(rest)
}

/// Returns what follows if the texts begin with the paths of one field, in an object and in the template of the other.
fn behind_paths<'t>(left: &'t str, right: &'t str, paths: PathEquality) -> Option<(&'t str, &'t str)> {
    let (path, rest) = split_path(left);
    let (owners, others) = split_path(right);
    let text = |path| match paths {
        PathEquality::Exact => Cow::Borrowed(path),
        PathEquality::AnyIndex => without_indexes(path),
    };
    let (path, owners) = (text(path), text(owners));
    let (short, long) = if path.len() < owners.len() { (path, owners) } else { (owners, path) };
    let is_of_object = ["spec", "metadata"].iter().any(|root| behind_word(&short, root, false).is_some());
    let template = long.strip_suffix(&*short)?;
    (is_of_object && (template.is_empty() || template.ends_with('.'))).then_some((rest, others))
}

/// Splits a text behind the path that it begins with.
fn split_path(text: &str) -> (&str, &str) {
    let end = text.find(|c| !(is_of_word(c) || matches!(c, '.' | '[' | ']'))).unwrap_or(text.len());
    // A sentence may end with a path.
    let path = text.get(..end).unwrap_or_default().trim_end_matches('.');
    text.split_at(path.len())
}

/// Returns a path with `[]` for each index.
fn without_indexes(path: &str) -> Cow<'_, str> {
    if !path.contains('[') {
        return Cow::Borrowed(path);
    }
    let is_index = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts = path.split_inclusive(['[', ']']).map(|part| match part.strip_suffix(']') {
        Some(index) if is_index(index) => "]",
        _ => part,
    });
    Cow::Owned(parts.collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::model::{object::Kind, verdict::Outcome};

    fn key(group: &str, kind: &str, name: &str) -> ObjectKey {
        let kind = Kind::sample(group, &format!("{}s", kind.to_lowercase()), kind);
        ObjectKey { kind, namespace: Some("shop".into()), name: name.into(), copy: 0 }
    }

    fn finding(message: &str, details: &Value) -> Finding {
        let details = details.as_object().map(|details| Arc::new(details.clone()));
        Finding { details, ..Finding::sample(message) }
    }

    fn is_same(dependents: &Finding, owners: &Finding, paths: PathEquality) -> bool {
        let (pod, deployment) = (key("", "Pod", "web-5d8f-x2k4p"), key("apps", "Deployment", "web"));
        OwnerPair { dependent: &pod, owner: &deployment }.is_same(dependents, owners, paths)
    }

    #[test]
    fn a_message_is_the_same_but_for_name_kind_and_template() {
        let same = |pod: &str, deployment: &str| {
            is_same(&finding(pod, &Value::Null), &finding(deployment, &Value::Null), PathEquality::AnyIndex)
        };
        for (pod, deployment) in [
            ("runs as root", "runs as root"),
            ("", ""),
            ("Pod web-5d8f-x2k4p runs as root", "Deployment web runs as root"),
            ("Pod web-5d8f-x2k4p: the Pod runs as root", "Deployment web: the Pod runs as root"),
            ("container app in pod: web-5d8f-x2k4p", "container app in Deployment: web"),
            ("shop/web-5d8f-x2k4p, container web-5d8f-x2k4p.", "shop/web, container web."),
            ("container web runs web:latest in web-5d8f-x2k4p", "container web runs web:latest in web"),
            ("set spec.containers[0].image.", "set spec.template.spec.containers[0].image."),
            ("set (metadata.labels)", "set (spec.template.metadata.labels)"),
            ("ä spec.hostNetwork", "ä spec.template.spec.hostNetwork"),
        ] {
            assert!(same(pod, deployment), "{pod} / {deployment}");
        }
        for (pod, deployment) in [
            ("container sidecar runs as root", "container app runs as root"),
            ("web-5d8f-x2k4p runs as root", "web-5d8f runs as root"),
            ("web runs as root", "web-5d8f-x2k4p runs as root"),
            ("web-5d8f-x2k4p-a runs as root", "web-a runs as root"),
            ("Pods run as root", "Deployments run as root"),
            ("set spec.containers[1].image", "set spec.template.spec.containers[0].image"),
            ("set spec.initContainers[0].image", "set spec.template.spec.containers[0].image"),
            ("set image", "set spec.template.spec.image"),
            ("set spec.image", "set xspec.image"),
            ("a", "a b"),
            ("a b", "a"),
        ] {
            assert!(!same(pod, deployment), "{pod} / {deployment}");
        }
    }

    #[test]
    fn details_are_compared_where_both_have_them() {
        let same = |pod: &Value, deployment: &Value| {
            let (pod, deployment) = (finding("m", pod), finding("m", deployment));
            [PathEquality::Exact, PathEquality::AnyIndex].map(|paths| is_same(&pod, &deployment, paths))
        };
        let field = |container: &str, field: &str| json!({"container": container, "field": field, "value": [null, 1]});
        let template = field("app", "spec.template.spec.containers[0].image");
        assert_eq!(same(&field("app", "spec.containers[0].image"), &template), [true, true]);
        assert_eq!(same(&field("app", "spec.containers[1].image"), &template), [false, true]);
        assert_eq!(same(&field("sidecar", "spec.containers[1].image"), &template), [false, false]);
        assert_eq!(same(&field("app", "spec.ephemeralContainers[0].image"), &template), [false, false]);
        assert_eq!(same(&json!({"field": "spec.containers[0].image"}), &template), [false, false]);
        assert_eq!(same(&Value::Null, &template), [true, true]);
        let paths = |paths: &[&str]| json!({"failedPaths": paths});
        let cron_job = paths(&["spec.jobTemplate.spec.template.spec.volumes[3].hostPath"]);
        assert_eq!(same(&paths(&["spec.template.spec.volumes[4].hostPath"]), &cron_job), [false, true]);
        assert_eq!(same(&paths(&[]), &cron_job), [false, false]);
        let annotation = |path: &str| json!({"field": format!("{path}metadata.annotations[\"a.b/c\"]")});
        assert_eq!(same(&annotation(""), &annotation("spec.template.")), [true, true]);
    }

    #[test]
    fn another_rule_or_outcome_is_another_violation() {
        let (pod, deployment) = (key("", "Pod", "a"), key("apps", "Deployment", "b"));
        let pair = OwnerPair { dependent: &pod, owner: &deployment };
        let is_same = |other: Finding| pair.is_same(&other, &Finding::sample("m"), PathEquality::AnyIndex);
        assert!(is_same(Finding::sample("m")));
        assert!(!is_same(Finding::sample_of("q", "deny", "m")));
        assert!(!is_same(Finding::sample_of("p", "deny_more", "m")));
        assert!(!is_same(Finding { outcome: Outcome::Warn, ..Finding::sample("m") }));
    }
}
