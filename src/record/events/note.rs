//! The notes of Events about violations, as `kubectl get events` shows them: severity, rule and message.

use std::fmt::Write as _;

use super::annotations::NAME_BYTES;
use crate::audit::ledger::Lifecycle;
use crate::model::{
    text::{dependents, truncate},
    verdict::{Excused, Finding, RuleInfo},
};

/// Returns the note of an Event: `high IMG-01 Tag latest or none: container …`. The note of a resolved violation
/// begins with `resolved: `; that of an excused one with the exception, as the object was not fixed.
pub(super) fn note(finding: &Finding, dependents_of_it: usize, lifecycle: Lifecycle) -> String {
    let mut note = match (&finding.excused, lifecycle) {
        (Some(Excused { excuse, .. }), _) => format!("{excuse}; "),
        (None, Lifecycle::Resolved) => "resolved: ".to_owned(),
        (None, Lifecycle::Appeared | Lifecycle::Happened) => String::new(),
    };
    // Writing to a string cannot fail.
    let _infallible = write!(note, "{}: {}", heading(finding), finding.message);
    if dependents_of_it > 0 {
        let _infallible = write!(note, " (and {})", dependents(dependents_of_it));
    }
    note
}

/// Returns the severity, and the id and title of the rule, as far as they are set; without a title, the path of the
/// rule.
pub(super) fn heading(finding: &Finding) -> String {
    let RuleInfo { title, id, .. } = RuleInfo::clone(&finding.rule.info);
    let severity = finding.severity.map(|severity| severity.word().to_owned());
    let [id, title] = [id, title].map(|text| text.map(|text| truncate(&text, NAME_BYTES).to_owned()));
    let parts = [severity, id, Some(title.unwrap_or_else(|| path(finding)))];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Returns `policy/rule`.
fn path(Finding { rule, .. }: &Finding) -> String {
    format!("{}/{}", truncate(&rule.policy, NAME_BYTES), truncate(&rule.name, NAME_BYTES))
}
