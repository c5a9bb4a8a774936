//! A comparison for a comment on a pull request: the counts by rule and namespace, then the differences, as far as
//! there is space.

use std::{fmt::Write as _, io};

use super::{by_namespace, by_rule, change, columns, headline, notes, reason, sentence, side};
use crate::{
    audit::{
        diff::{AuditDiff, Tally},
        result::Entry,
    },
    model::text::shortened,
    output::{
        format::Place,
        forms::{MESSAGE_BYTES, code},
        names::{ShownNames, message, rule_name, urgency},
        style::{Paint, count},
    },
};

/// The first line of a comment; a job finds the comment by it and updates it.
const MARK: &str = "<!-- kaudit diff -->\n";
/// Maximum number of rows in a count table and of notes.
const ROWS: usize = 20;
/// Bytes reserved for the last sentence.
const LAST_BYTES: usize = 256;

pub(super) fn render(diff: &AuditDiff, out: &mut dyn io::Write) -> io::Result<()> {
    let mut document = format!("{MARK}### kaudit diff: {}\n\n{}\n", headline(diff), code(&sentence(diff)));
    let notes = notes(diff, Paint(false));
    if !diff.complete {
        document.push_str("\nIncomplete: not everything could be compared.\n");
    }
    if !notes.is_empty() {
        document.push('\n');
    }
    for note in notes.iter().take(ROWS) {
        let _ = writeln!(document, "- {}", code(shortened(note, MESSAGE_BYTES).as_ref()));
    }
    if notes.len() > ROWS {
        let _ = writeln!(document, "- and {} more", notes.len() - ROWS);
    }
    document.push_str(&table(diff, "Rule", &by_rule(diff)));
    document.push_str(&table(diff, "Namespace", &by_namespace(diff)));
    details(diff, &mut document);
    out.write_all(document.as_bytes())
}

/// Returns a count table.
fn table(diff: &AuditDiff, head: &str, rows: &[(String, Tally)]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let columns = columns(diff);
    let titles: Vec<&str> = columns.iter().map(|column| column.title).collect();
    let mut table = format!("\n| {head} | {} |\n|---|{}\n", titles.join(" | "), "--:|".repeat(columns.len()));
    for (name, tally) in rows.iter().take(ROWS) {
        let numbers: Vec<String> = columns.iter().map(|column| (column.count)(tally).to_string()).collect();
        let name = code(shortened(name, MESSAGE_BYTES).as_ref());
        let _ = writeln!(table, "| {name} | {} |", numbers.join(" | "));
    }
    if rows.len() > ROWS {
        let _ = write!(table, "\n{} more rows with fewer differences.\n", rows.len() - ROWS);
    }
    table
}

/// Adds the differences, the most severe new violations first, and the number of rows that were left out.
fn details(diff: &AuditDiff, document: &mut String) {
    let names = super::names(diff);
    let mut appears: Vec<&Entry> = diff.appears.iter().collect();
    appears.sort_by_key(|entry| urgency(entry));
    let mut rows: Vec<String> = appears.into_iter().map(|entry| row("appears", entry, &names, None)).collect();
    rows.extend(diff.changes.iter().map(|changed| {
        let words = change(changed).unwrap_or_else(|| format!("was: {}", changed.before.message));
        row("changes", &changed.after, &names, Some(&words))
    }));
    let fails = |entry: &Entry, words: &str| row(&format!("fails {words}"), entry, &names, None);
    rows.extend(diff.errors.iter().map(|failed| fails(&failed.entry, side(failed.side))));
    rows.extend(diff.incomparable.iter().map(|one| row("not compared", &one.entry, &names, Some(&reason(diff, one)))));
    rows.extend(diff.resolves.iter().map(|entry| row("resolves", entry, &names, None)));
    if rows.is_empty() {
        return;
    }
    document.push_str("\n| | Object | Rule | Message |\n|---|---|---|---|\n");
    let room = Place::Comment.bytes() - LAST_BYTES;
    let mut written = 0;
    for row in &rows {
        if document.len() + row.len() > room {
            break;
        }
        document.push_str(row);
        written += 1;
    }
    if written < rows.len() {
        let left = count(rows.len(), "line");
        let _ = write!(document, "\n{} of {left} were left out to fit the size limit.\n", rows.len() - written);
    }
}

fn row(class: &str, entry: &Entry, names: &ShownNames<'_>, remark: Option<&str>) -> String {
    let severity = entry.severity.map_or(String::new(), |severity| format!(", {}", severity.word()));
    let place = entry
        .location
        .as_ref()
        .map_or(String::new(), |location| format!("<br>{}", code(&format!("{}:{}", location.file, location.line))));
    let remark =
        remark.map_or(String::new(), |remark| format!("<br>{}", code(shortened(remark, MESSAGE_BYTES).as_ref())));
    let (object, rule) = (code(&names.object(&entry.resource)), code(&rule_name(entry)));
    let message = code(shortened(&message(entry), MESSAGE_BYTES).as_ref());
    format!("| {class}: {}{severity} | {object}{place} | {rule} | {message}{remark} |\n", entry.result.word())
}
