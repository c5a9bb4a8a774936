//! Summary tables of results by severity, namespace and rule.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    names::{rule_name, urgency},
    rules::RuleCatalog,
    safe::shown_line,
    style::{BOLD, Paint, columns_of, severity_style},
};
use crate::{
    audit::result::{AuditResult, Entry},
    model::{
        object::{NO_NAMESPACE, ObjectRef},
        verdict::{Outcome, Severity},
    },
};

/// Maximum number of rows in a table; the others are counted.
const ROWS: usize = 20;
/// The label of results without a severity.
const NO_SEVERITY: &str = "none";

/// Returns the lines of all tables, each followed by an empty line. `entries` must not contain baseline results.
pub(super) fn tables(result: &AuditResult, entries: &[&Entry], width: usize, paint: Paint) -> Vec<String> {
    let open: Vec<&Entry> = entries.iter().copied().filter(|entry| entry.result != Outcome::Skip).collect();
    if open.is_empty() {
        return Vec::new();
    }
    let mut tables = vec![by_severity(&open, paint)];
    tables.extend(by_namespace(&open, paint));
    tables.push(by_rule(result, &open, paint));
    tables.iter().flat_map(|table| table.lines(width)).collect()
}

/// Returns the severities of the results, the most severe first and `None` last.
fn severities(entries: &[&Entry]) -> Vec<Option<Severity>> {
    let found: BTreeSet<(bool, Option<Severity>)> =
        entries.iter().map(|entry| (entry.severity.is_none(), entry.severity)).collect();
    found.into_iter().map(|(_, severity)| severity).collect()
}

fn word(severity: Option<Severity>) -> &'static str {
    severity.map_or(NO_SEVERITY, Severity::word)
}

fn painted(severity: Option<Severity>, paint: Paint) -> String {
    paint.with(severity_style(severity), word(severity))
}

fn by_severity(entries: &[&Entry], paint: Paint) -> SummaryTable {
    let outcomes = [Outcome::Fail, Outcome::Warn, Outcome::Error];
    let has = |outcome: &Outcome| entries.iter().any(|entry| entry.result == *outcome);
    let outcomes: Vec<Outcome> = outcomes.into_iter().filter(has).collect();
    let head = [vec!["SEVERITY".to_owned()], outcomes.iter().map(|one| one.word().to_uppercase()).collect()].concat();
    let mut table = SummaryTable::new(&head, paint);
    for severity in severities(entries) {
        let count = |outcome: &Outcome| {
            let counted = entries.iter().filter(|entry| entry.result == *outcome && entry.severity == severity);
            counted.count().to_string()
        };
        table.rows.push([vec![painted(severity, paint)], outcomes.iter().map(count).collect()].concat());
    }
    table
}

/// Returns the namespace of an object as displayed.
pub(super) fn namespace(resource: &ObjectRef) -> String {
    resource.place().map_or_else(|| NO_NAMESPACE.to_owned(), |place| shown_line(&place))
}

/// Returns the table by namespace, or `None` if there is only one namespace.
fn by_namespace(entries: &[&Entry], paint: Paint) -> Option<SummaryTable> {
    let mut namespaces: BTreeMap<String, Vec<&Entry>> = BTreeMap::new();
    for entry in entries {
        namespaces.entry(namespace(&entry.resource)).or_default().push(entry);
    }
    if namespaces.len() < 2 {
        return None;
    }
    let severities = severities(entries);
    let counts = |entries: &[&Entry]| -> Vec<usize> {
        let count = |severity| entries.iter().filter(|entry| entry.severity == severity).count();
        severities.iter().map(|severity| count(*severity)).collect()
    };
    let mut rows: Vec<(Vec<usize>, String)> =
        namespaces.iter().map(|(namespace, entries)| (counts(entries), namespace.clone())).collect();
    // Sort by the number of the most severe results, descending.
    rows.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let head = [vec!["NAMESPACE".to_owned()], severities.iter().map(|one| word(*one).to_uppercase()).collect()];
    let mut table = SummaryTable::new(&head.concat(), paint);
    table.more = rows.len().saturating_sub(ROWS);
    for (counts, namespace) in rows.into_iter().take(ROWS) {
        table.rows.push([vec![namespace], counts.iter().map(ToString::to_string).collect()].concat());
    }
    Some(table)
}

fn by_rule(result: &AuditResult, entries: &[&Entry], paint: Paint) -> SummaryTable {
    let about = RuleCatalog::of(result);
    let mut rules: BTreeMap<(&str, &str), Vec<&Entry>> = BTreeMap::new();
    for entry in entries {
        rules.entry((&entry.policy, &entry.rule)).or_default().push(entry);
    }
    let mut rules: Vec<Vec<&Entry>> = rules.into_values().collect();
    rules.sort_by_key(|entries| {
        let worst = entries.iter().map(|entry| urgency(entry)).min();
        (worst, std::cmp::Reverse(entries.len()))
    });
    let head = ["RULE", "SEVERITY", "RESULTS", "OBJECTS", "TITLE"].map(str::to_owned);
    let mut table = SummaryTable::new(&head, paint);
    table.is_text = vec![1, 4];
    table.more = rules.len().saturating_sub(ROWS);
    for entries in rules.iter().take(ROWS) {
        let Some(first) = entries.first() else { continue };
        let info = about.about(&first.policy, &first.rule);
        let title = info.and_then(|about| about.title.as_deref()).map_or(String::new(), shown_line);
        let id = info.and_then(|about| about.id.as_deref()).map(shown_line);
        let objects: BTreeSet<&ObjectRef> = entries.iter().map(|entry| &*entry.resource).collect();
        let applicable = about
            .objects(&first.policy, &first.rule)
            .map_or(String::new(), |counts| format!(" of {}", counts.applicable));
        let severity = entries.iter().map(|entry| (entry.severity.is_none(), entry.severity)).min();
        table.rows.push(vec![
            id.unwrap_or_else(|| rule_name(first)),
            painted(severity.and_then(|(_, severity)| severity), paint),
            entries.len().to_string(),
            format!("{}{applicable}", objects.len()),
            title,
        ]);
    }
    table
}

/// A table whose first column is text; the other columns are numbers unless listed in `is_text`.
struct SummaryTable {
    rows: Vec<Vec<String>>,
    /// Further text columns.
    is_text: Vec<usize>,
    /// Number of rows that are left out.
    more: usize,
}

impl SummaryTable {
    fn new(head: &[String], paint: Paint) -> Self {
        let head = head.iter().map(|word| paint.with(BOLD, word)).collect();
        Self { rows: vec![head], is_text: Vec::new(), more: 0 }
    }

    /// Returns the lines, shortened to `width` if that only cuts text.
    fn lines(&self, width: usize) -> Vec<String> {
        let columns = self.rows.first().map_or(0, Vec::len);
        let wide = |column: usize| self.rows.iter().map(|row| columns_of(&row[column])).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(wide).collect();
        let mut lines = Vec::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (text, wide)) in row.iter().zip(&widths).enumerate() {
                let pad = " ".repeat(wide.saturating_sub(columns_of(text)));
                let gap = if column == 0 { "" } else { "  " };
                let is_text = column == 0 || self.is_text.contains(&column);
                let cell = if is_text { [gap, text, &pad] } else { [gap, &pad, text] };
                line.extend(cell);
            }
            lines.push(cut(line.trim_end(), width));
        }
        if self.more > 0 {
            lines.push(format!("and {} more", self.more));
        }
        lines.push(String::new());
        lines
    }
}

/// Cuts a line that is too wide; its last column must be text without colour.
fn cut(line: &str, width: usize) -> String {
    let excess = columns_of(line).saturating_sub(width);
    if excess == 0 {
        return line.to_owned();
    }
    let mut kept = line.to_owned();
    while columns_of(&kept) > width.saturating_sub(1) && kept.pop().is_some() {}
    format!("{}…", kept.trim_end())
}
