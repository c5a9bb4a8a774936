//! The annotations of Events, from which a later run reads the open violations; the note is only for people. All
//! annotations but `kaudit.dev/audit` are only on Events about violations.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;

use crate::{
    audit::ledger::{Id, Lifecycle, Violation},
    model::{
        object::ObjectRef,
        text::{shortened, truncate},
        verdict::{Finding, Outcome, RuleDescriptor, RuleInfo, Severity},
    },
};

/// The id of the violation.
const VIOLATION: &str = "kaudit.dev/violation";
/// The time when the violation appeared; not on Events about violations of a transition, which are never open.
const SINCE: &str = "kaudit.dev/since";
/// The namespace and name of the `Audit` of the kaudit that wrote the Event.
pub(super) const AUDIT: &str = "kaudit.dev/audit";
/// The package of the violated rule, or the kind of the Constraint.
const POLICY: &str = "kaudit.dev/policy";
/// The name of the violated rule, or of the Constraint.
const RULE: &str = "kaudit.dev/rule";
/// `fail` or `warn`.
const RESULT: &str = "kaudit.dev/result";
/// The message of the policy, up to 4 KiB.
pub(super) const MESSAGE: &str = "kaudit.dev/message";
/// The severity of the violation, if it has one.
const SEVERITY: &str = "kaudit.dev/severity";
/// The category in the METADATA of the rule, if it has one.
const CATEGORY: &str = "kaudit.dev/category";
/// The title in the METADATA of the rule, if it has one.
const TITLE: &str = "kaudit.dev/title";
/// The id in the METADATA of the rule, if it has one.
const RULE_ID: &str = "kaudit.dev/rule-id";
/// The names of the receivers that are sent its appearance, separated by commas, where there are
/// receivers.
const RECEIVERS: &str = "kaudit.dev/receivers";

/// Longest message, in bytes: as long as in reports and in notifications.
const MESSAGE_BYTES: usize = 4 * 1024;
/// Longest name of a policy or rule, and longest text of METADATA, in bytes.
pub(super) const NAME_BYTES: usize = 512;

/// The annotations of an Event, by name.
pub(super) type EventAnnotations = BTreeMap<String, String>;

/// Returns the annotations of an Event about what happened to a violation.
pub(super) fn of(violation: &Violation, lifecycle: Lifecycle) -> EventAnnotations {
    let Violation { id, finding, since, notified, .. } = violation;
    let RuleInfo { title, id: rule_id, category } = RuleInfo::clone(&finding.rule.info);
    let name = |text: &Arc<str>| truncate(text, NAME_BYTES).to_owned();
    let all = [
        (VIOLATION, Some(id.to_string())),
        (SINCE, (lifecycle != Lifecycle::Happened).then(|| since.to_string())),
        (POLICY, Some(name(&finding.rule.policy))),
        (RULE, Some(name(&finding.rule.name))),
        (RESULT, Some(finding.outcome.word().to_owned())),
        (MESSAGE, Some(shortened(&finding.message, MESSAGE_BYTES).into_owned())),
        (SEVERITY, finding.severity.map(|severity| severity.word().to_owned())),
        (CATEGORY, category.as_ref().map(name)),
        (TITLE, title.as_ref().map(name)),
        (RULE_ID, rule_id.as_ref().map(name)),
        (RECEIVERS, notified.as_ref().map(ToString::to_string)),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// Returns the id of the violation and the time when it appeared; `None` if the Event is not about one that was open.
pub(super) fn id_and_since(annotations: &EventAnnotations) -> Option<(Id, Timestamp)> {
    Some((Id::parse(annotations.get(VIOLATION)?)?, annotations.get(SINCE)?.parse().ok()?))
}

/// Returns the violation of an object; `None` if an annotation is missing or invalid. Texts may be shortened: the
/// finding never replaces that of a policy, but later Events and notifications show the same text.
pub(super) fn violation(annotations: &EventAnnotations, object: &ObjectRef) -> Option<Violation> {
    let (id, since) = id_and_since(annotations)?;
    let violation = Violation::new(object, finding(annotations)?, since);
    Some(Violation { id, fingerprint: id, notified: text(annotations, RECEIVERS), ..violation })
}

/// Returns the finding of a violation; the message is empty if there is none.
pub(super) fn finding(annotations: &EventAnnotations) -> Option<Finding> {
    let text = |name| text(annotations, name);
    let result = text(RESULT)?;
    let info = RuleInfo { title: text(TITLE), id: text(RULE_ID), category: text(CATEGORY) };
    let rule = RuleDescriptor { info: info.into(), ..RuleDescriptor::named(text(POLICY)?, text(RULE)?) };
    Some(Finding {
        rule: rule.into(),
        outcome: [Outcome::Fail, Outcome::Warn].into_iter().find(|outcome| *outcome.word() == *result)?,
        severity: text(SEVERITY).and_then(|word| Severity::from_word(&word)),
        message: text(MESSAGE).unwrap_or_default(),
        details: None,
        excused: None,
    })
}

fn text(annotations: &EventAnnotations, name: &str) -> Option<Arc<str>> {
    annotations.get(name).map(|text| text.as_str().into())
}

/// Returns the length of the texts that a [violation] keeps, in bytes.
pub(super) fn kept_bytes(annotations: &EventAnnotations) -> usize {
    let kept = [POLICY, RULE, MESSAGE, CATEGORY, TITLE, RULE_ID, RECEIVERS];
    kept.into_iter().filter_map(|name| annotations.get(name)).map(String::len).sum()
}
