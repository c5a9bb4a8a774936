//! Writes the comparison of two results for people, programs and pull requests: one [`AuditDiff`], three renderers.

mod markdown;
mod text;

use std::{cmp::Reverse, io};

use clap::ColorChoice;

use super::{
    exit::FailOn,
    format::{Format, RenderOptions, Target},
    names::ShownNames,
    safe::{Guarded, shown_line, write_json_pretty},
    style::{Paint, count},
    summary::unread,
    write::write_targets,
};
use crate::{
    audit::{
        diff::{AuditDiff, ChangedEntry, DiffedResult, OneSidedEntry, Side, Tally},
        result::Entry,
    },
    model::verdict::{Outcome, Severity},
};

/// Maximum number of rules listed by name.
const RULES: usize = 10;

/// Writes `diff` to every target. Formats that a comparison does not support are rejected when the options are parsed.
///
/// # Errors
/// If a file or standard output cannot be written.
pub fn write_diff(targets: &[Target], diff: &AuditDiff, color: ColorChoice) -> anyhow::Result<()> {
    write_targets(targets, color, |format, options, out| render(format, diff, options, out))
}

fn render(format: Format, diff: &AuditDiff, options: &RenderOptions, out: &mut dyn io::Write) -> io::Result<()> {
    match format {
        Format::Json => {
            write_json_pretty(&mut *out, diff)?;
            out.write_all(b"\n")
        }
        Format::Markdown => markdown::render(diff, &mut Guarded::new(out)),
        _ => text::render(diff, options, &mut Guarded::new(out)),
    }
}

/// Returns the exit code of a comparison: 1 if a result counts by `fail_on` that did not count before, else 3 if the
/// comparison is incomplete, else 0.
pub fn diff_exit_code(diff: &AuditDiff, fail_on: FailOn) -> u8 {
    let counts = |entry: &Entry| fail_on.counts(entry.result, entry.severity);
    let counted = |changed: &ChangedEntry| fail_on.counts(changed.before.result, changed.before.severity);
    let worse = |changed: &ChangedEntry| counts(&changed.after) && !counted(changed);
    if diff.appears.iter().any(counts) || diff.changes.iter().any(worse) {
        1
    } else if diff.complete {
        0
    } else {
        3
    }
}

/// Returns the counts that are not 0, such as `2 appear (1 fail, 1 warn)`, and always that of unchanged violations.
fn counts(diff: &AuditDiff) -> Vec<String> {
    let Tally { appears, changes, resolves, stays, incomparable } = diff.summary;
    let verb = |number: usize, one: &str, many: &str| format!("{number} {}", if number == 1 { one } else { many });
    let mut counts = Vec::new();
    if appears > 0 {
        counts.push(format!("{} ({})", verb(appears, "appears", "appear"), outcomes(&diff.appears)));
    }
    if changes > 0 {
        counts.push(verb(changes, "changes", "change"));
    }
    if resolves > 0 {
        counts.push(verb(resolves, "resolves", "resolve"));
    }
    counts.push(verb(stays, "stays", "stay"));
    if incomparable > 0 {
        counts.push(format!("{incomparable} not compared"));
    }
    counts
}

/// Returns the counts of differences in a few words.
fn headline(diff: &AuditDiff) -> String {
    let mut counts = counts(diff);
    // The headline omits unchanged violations if there are differences.
    if counts.len() > 1 {
        counts.retain(|count| !count.ends_with(" stay") && !count.ends_with(" stays"));
        return counts.join(", ");
    }
    if diff.complete { "no difference".to_owned() } else { "incomplete".to_owned() }
}

fn outcomes(entries: &[Entry]) -> String {
    let number = |outcome: Outcome| entries.iter().filter(|entry| entry.result == outcome).count();
    let parts = [Outcome::Fail, Outcome::Warn].map(|outcome| (number(outcome), outcome.word()));
    let parts = parts.iter().filter(|(number, _)| *number > 0).map(|(number, word)| format!("{number} {word}"));
    parts.collect::<Vec<_>>().join(", ")
}

/// Returns all counts as one sentence.
fn sentence(diff: &AuditDiff) -> String {
    let [old, new] = [&diff.before, &diff.after].map(|result: &DiffedResult| {
        format!("{} ({}, {})", result.name, count(result.summary.objects, "object"), count(result.rules, "rule"))
    });
    format!("{old} to {new}: {}", counts(diff).join(", "))
}

/// Returns remarks: added and removed rules, and the gaps of both results.
fn notes(diff: &AuditDiff, paint: Paint) -> Vec<String> {
    let rules = [("new", &diff.added_rules), ("removed", &diff.removed_rules)];
    let rules = rules.into_iter().filter(|(_, rules)| !rules.is_empty()).map(|(word, rules)| {
        let named: Vec<String> = rules.iter().take(RULES).map(|rule| shown_line(rule)).collect();
        let more = rules.len().saturating_sub(RULES);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{word} {}: {}{more}", if rules.len() == 1 { "rule" } else { "rules" }, named.join(", "))
    });
    let mut notes: Vec<String> = rules.collect();
    // Two results of the same objects have the same gaps.
    for (result, other) in [(&diff.after, &diff.before), (&diff.before, &diff.after)] {
        let gaps = unread(&result.coverage, &result.refused, paint);
        let same = unread(&other.coverage, &other.refused, paint);
        let name = |gap: String| if same.contains(&gap) { gap } else { format!("{}: {gap}", shown_line(&result.name)) };
        for gap in gaps.into_iter().map(name) {
            if !notes.contains(&gap) {
                notes.push(gap);
            }
        }
    }
    notes
}

/// Collects the names of all objects in the comparison.
fn names(diff: &AuditDiff) -> ShownNames<'_> {
    let changes = diff.changes.iter().map(|changed| &changed.after);
    let errors = diff.errors.iter().map(|failed| &failed.entry);
    let incomparable = diff.incomparable.iter().map(|one| &one.entry);
    ShownNames::of(diff.appears.iter().chain(&diff.resolves).chain(changes).chain(errors).chain(incomparable))
}

/// Returns the word for a side.
fn side(side: Side) -> &'static str {
    match side {
        Side::Before => "before",
        Side::After => "after",
        Side::Both => "before and after",
    }
}

/// Returns why a violation of one side could not be compared with the other.
fn reason(diff: &AuditDiff, one: &OneSidedEntry) -> String {
    let other = if one.side == Side::Before { &diff.after } else { &diff.before };
    format!("in {}, {}", other.name, one.reason)
}

/// A column of a count table.
struct Column {
    title: &'static str,
    count: fn(&Tally) -> usize,
}

/// Returns the columns of a count table; "not compared" only if there are such violations.
fn columns(diff: &AuditDiff) -> Vec<Column> {
    let mut columns = vec![
        Column { title: "appears", count: |tally| tally.appears },
        Column { title: "changes", count: |tally| tally.changes },
        Column { title: "resolves", count: |tally| tally.resolves },
        Column { title: "stays", count: |tally| tally.stays },
    ];
    if diff.summary.incomparable > 0 {
        columns.push(Column { title: "not compared", count: |tally| tally.incomparable });
    }
    columns
}

/// Returns the rows of a count table that contain a difference, those with the most new violations first.
fn rows(all: impl Iterator<Item = (String, Tally)>) -> Vec<(String, Tally)> {
    let mut rows: Vec<(String, Tally)> = all.filter(|(_, tally)| tally.differs()).collect();
    rows.sort_by_key(|(_, tally)| (Reverse(tally.appears), Reverse(tally.changes)));
    rows
}

/// Returns the counts by rule.
fn by_rule(diff: &AuditDiff) -> Vec<(String, Tally)> {
    rows(diff.rules.iter().map(|rule| (format!("{}/{}", rule.policy, rule.rule), rule.tally)))
}

/// Returns the counts by namespace.
fn by_namespace(diff: &AuditDiff) -> Vec<(String, Tally)> {
    let name = |namespace: Option<&str>| namespace.unwrap_or("(none)").to_owned();
    rows(diff.namespaces.iter().map(|one| (name(one.namespace.as_deref()), one.tally)))
}

/// Returns the changes of a violation's outcome and severity, such as `warn → fail`; `None` if only its message changed.
fn change(changed: &ChangedEntry) -> Option<String> {
    let (before, after) = (&changed.before, &changed.after);
    let word = |severity: Option<Severity>| severity.map_or("no severity", Severity::word);
    let mut parts = Vec::new();
    if before.result != after.result {
        parts.push(format!("{} → {}", before.result.word(), after.result.word()));
    }
    if before.severity != after.severity {
        parts.push(format!("{} → {}", word(before.severity), word(after.severity)));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}
