//! GitLab code quality report: an array of issues, each with a unique fingerprint.

use std::io;

use serde_json::{Value, json};

use super::anchor::{Anchor, Occurrences};
use crate::{
    audit::result::{AuditResult, Entry},
    model::{
        digest::Digest,
        text::shortened,
        verdict::{Outcome, Severity},
    },
    output::{
        format::RenderOptions,
        names::{ShownNames, message, rule_name, worst_first},
        safe::write_json_pretty,
        style::Paint,
        summary::gap_lines,
    },
};

/// Maximum length of a description.
const DESCRIPTION_BYTES: usize = 4_096;

/// Writes the gaps, and all results that are not excused, the most severe first.
pub(crate) fn render(result: &AuditResult, options: &RenderOptions, out: &mut dyn io::Write) -> io::Result<()> {
    let names = ShownNames::of(&result.results);
    let mut occurrences = Occurrences::of(result);
    let tree = options.tree.as_ref();
    let listed = worst_first(&result.results).into_iter().filter(|entry| entry.result != Outcome::Skip);
    // A gap has no file of its own; point to the first policy, which would have been evaluated.
    let file = result.policies.first().map_or("", |policy| &policy.source);
    let gaps = gap_lines(result, Paint(false)).into_iter().map(|gap| {
        let fingerprint = format!("{:032x}", Digest::of(&gap).half());
        issue(&gap, "kaudit/coverage", &fingerprint, "major", &Anchor::of_policies(file, tree))
    });
    let issues: Vec<Value> = gaps
        .chain(listed.map(|entry| result_issue(entry, &mut occurrences, &Anchor::of(entry, tree), &names)))
        .collect();
    write_json_pretty(&mut *out, &issues)?;
    out.write_all(b"\n")
}

fn result_issue(entry: &Entry, occurrences: &mut Occurrences<'_>, anchor: &Anchor, names: &ShownNames<'_>) -> Value {
    let error = if entry.result == Outcome::Error { "could not be evaluated: " } else { "" };
    let description = format!("{}: {error}{}", names.object(&entry.resource), message(entry));
    let fingerprint = match occurrences.next(entry) {
        (fingerprint, 1) => fingerprint.to_string(),
        (fingerprint, number) => format!("{fingerprint}-{number}"),
    };
    issue(&description, &rule_name(entry), &fingerprint, severity(entry), anchor)
}

fn issue(description: &str, check: &str, fingerprint: &str, severity: &str, anchor: &Anchor) -> Value {
    json!({
        "type": "issue",
        "categories": ["Security"],
        "description": shortened(&description.replace('\n', " "), DESCRIPTION_BYTES),
        "check_name": check,
        "fingerprint": fingerprint,
        "severity": severity,
        "location": {"path": anchor.file(), "lines": {"begin": anchor.line}},
    })
}

fn severity(entry: &Entry) -> &'static str {
    match (entry.severity, entry.result) {
        (Some(Severity::Critical), _) => "blocker",
        (Some(Severity::High), _) => "critical",
        (Some(Severity::Low), _) | (None, Outcome::Warn) => "minor",
        (Some(Severity::Info), _) => "info",
        (Some(Severity::Medium) | None, _) => "major",
    }
}
