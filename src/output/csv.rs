//! Results for spreadsheets: a header row, then one row per result.
//!
//! Each cell is one line without control characters. A cell that a spreadsheet would evaluate as a formula is prefixed
//! with an apostrophe, as OWASP recommends, because users and policies choose the names and messages.

use std::io;

use csv::Writer;

use super::{names::worst_first, rules::RuleCatalog, safe::shown_line};
use crate::{
    audit::result::{AuditResult, Entry},
    model::verdict::Severity,
};

pub(super) const HEAD: [&str; 15] = [
    "severity",
    "result",
    "namespace",
    "kind",
    "name",
    "policy",
    "rule",
    "ruleId",
    "title",
    "message",
    "file",
    "line",
    "excusedBy",
    "id",
    "cluster",
];
/// The characters with which formulas begin.
const FORMULA: [char; 4] = ['=', '+', '-', '@'];

/// Writes all results, the most severe first.
pub(super) fn render(result: &AuditResult, out: &mut dyn io::Write) -> io::Result<()> {
    let rules = RuleCatalog::of(result);
    let mut rows = Writer::from_writer(Vec::new());
    rows.write_record(HEAD)?;
    for entry in worst_first(&result.results) {
        let about = rules.about(&entry.policy, &entry.rule);
        let [id, title] = [about.and_then(|about| about.id.as_deref()), about.and_then(|about| about.title.as_deref())];
        rows.write_record(record(entry, (id, title)))?;
    }
    let bytes = rows.into_inner().map_err(|error| io::Error::other(error.to_string()))?;
    out.write_all(&bytes)
}

/// Returns the cells of a result, whose rule has this id and this title.
pub(super) fn record(entry: &Entry, (id, title): (Option<&str>, Option<&str>)) -> [String; HEAD.len()] {
    let text = |text: Option<&str>| cell(text.unwrap_or_default());
    let location = entry.location.as_ref();
    [
        text(entry.severity.map(Severity::word)),
        cell(entry.result.word()),
        text(entry.resource.namespace.as_deref()),
        cell(&entry.resource.kind),
        cell(&entry.resource.name),
        cell(&entry.policy),
        cell(&entry.rule),
        text(id),
        text(title),
        cell(&entry.message),
        text(location.map(|location| &*location.file)),
        location.map_or(String::new(), |location| location.line.to_string()),
        text(entry.excuse.as_ref().map(|excuse| &*excuse.by)),
        entry.id.to_string(),
        text(entry.resource.cluster.as_deref()),
    ]
}

/// Returns a text as a cell.
pub(super) fn cell(text: &str) -> String {
    let text = shown_line(text);
    if text.starts_with(FORMULA) { format!("'{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::verdict::Outcome,
        output::tests::{audit, entry, resource},
    };

    #[test]
    fn cells_are_quoted_and_formulas_disarmed() {
        let pod = resource("v1", "Pod", "shop", "web");
        let results = ["=HYPERLINK(\"x\")", "a, \"b\"\n::error::c", "plain"]
            .map(|message| entry(pod.clone(), "images", "deny", Outcome::Fail, message));
        let mut out = Vec::new();
        render(&audit(results.to_vec(), vec![], 0), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(
            text.contains("\"'=HYPERLINK(\"\"x\"\")\"") && text.contains(",fail,shop,Pod,web,images,deny,"),
            "{text}"
        );
        assert!(lines.iter().all(|line| !line.starts_with("::")), "{text}");
    }
}
