//! Reads Events that a version before the annotation with the message wrote: the message is only in their note. May be
//! removed in the release after 0.1.0, as the API server has deleted all such Events by then.

use super::{
    annotations::{self, EventAnnotations, MESSAGE},
    note::heading,
};

/// Adds the message in the note of an Event about the appearance of a violation to its annotations, if it is missing.
/// The note may be truncated.
pub(super) fn add_message(annotations: &mut EventAnnotations, note: Option<String>) {
    if annotations.contains_key(MESSAGE) {
        return;
    }
    if let (Some(finding), Some(note)) = (annotations::finding(annotations), note) {
        let message = note.strip_prefix(&heading(&finding)).and_then(|rest| rest.strip_prefix(": "));
        let message = without_dependents(message.unwrap_or(&note)).to_owned();
        annotations.insert(MESSAGE.to_owned(), message);
    }
}

/// Removes the count of dependents from the message in a note.
fn without_dependents(message: &str) -> &str {
    let counted =
        message.rsplit_once(" (and ").filter(|(_, rest)| rest.ends_with(" dependents)") || *rest == "1 dependent)");
    counted.map_or(message, |(message, _)| message)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;

    use super::*;
    use crate::{
        audit::ledger::{Lifecycle, Violation},
        model::{
            object::ObjectRef,
            verdict::{Finding, RuleDescriptor, RuleInfo, Severity},
        },
    };

    /// Returns the message that is read from a note, of a rule with this METADATA.
    fn message(info: RuleInfo, severity: Option<Severity>, note: &str) -> String {
        let rule = RuleDescriptor { info: info.into(), ..RuleDescriptor::named("pod/security: a", "deny") };
        let finding = Finding { rule: Arc::new(rule), severity, ..Finding::sample("") };
        let violation = Violation::new(&ObjectRef::sample(), finding, Timestamp::UNIX_EPOCH);
        let mut annotations = annotations::of(&violation, Lifecycle::Appeared);
        annotations.remove(MESSAGE);
        add_message(&mut annotations, Some(note.to_owned()));
        annotations[MESSAGE].clone()
    }

    #[test]
    fn the_message_follows_the_heading_of_the_note() {
        let titled = || RuleInfo { title: Some("Root: no".into()), id: Some("A-1".into()), category: None };
        let high = Some(Severity::High);
        assert_eq!(message(titled(), high, "high A-1 Root: no: a: b (and more)"), "a: b (and more)");
        assert_eq!(message(titled(), high, "high A-1 Root: no: a: b (and 1 dependent)"), "a: b");
        assert_eq!(message(titled(), None, "A-1 Root: no: a (and 7 dependents)"), "a");
        assert_eq!(message(RuleInfo::default(), None, "pod/security: a/deny: a"), "a");
        assert_eq!(message(RuleInfo::default(), high, "another note"), "another note");
    }

    #[test]
    fn a_message_in_the_annotations_stays() {
        let violation = Violation::sample("a");
        let written = annotations::of(&violation, Lifecycle::Appeared);
        let mut read = written.clone();
        add_message(&mut read, Some("p/deny: b".to_owned()));
        assert_eq!(read, written);
    }
}
