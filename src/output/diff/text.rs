//! A comparison for people: the differences by rule, with examples, then the counts.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
};

use anstyle::{AnsiColor, Style};

use super::{by_namespace, by_rule, change, columns, notes, reason, sentence, side};
use crate::{
    audit::{
        diff::{AuditDiff, OneSidedEntry, Side, Tally},
        result::Entry,
    },
    model::object::Location,
    output::{
        format::RenderOptions,
        names::{ShownNames, message, rule_name},
        safe::shown_line,
        style::{BOLD, DIM, GREEN, Paint, columns_of, count, style_of},
    },
};

/// Maximum number of violations shown per rule.
const EXAMPLES: usize = 5;
/// Maximum number of rows in a table, and of errors.
const LINES: usize = 20;

pub(super) fn render(diff: &AuditDiff, options: &RenderOptions, out: &mut dyn io::Write) -> io::Result<()> {
    let page = DiffText { diff, names: super::names(diff), paint: Paint(options.color) };
    let yellow = AnsiColor::Yellow.on_default();
    let appears = diff.appears.iter().map(|entry| (entry, None));
    let mut lines = page.class("appears", AnsiColor::Red.on_default().bold(), appears);
    let changes = diff.changes.iter().map(|changed| {
        let words = change(changed).unwrap_or_else(|| format!("was: {}", shown_line(&changed.before.message)));
        (&changed.after, Some(words))
    });
    lines.extend(page.class("changes", yellow, changes));
    let resolves = diff.resolves.iter().map(|entry| (entry, None));
    lines.extend(page.class("resolves", GREEN, resolves));
    lines.extend(page.errors());
    lines.extend(page.incomparable());
    lines.extend(page.table("rule", &by_rule(diff)));
    lines.extend(page.table("namespace", &by_namespace(diff)));
    let notes = notes(diff, page.paint);
    let gap = !notes.is_empty();
    lines.extend(notes);
    if gap {
        lines.push(String::new());
    }
    lines.push(shown_line(&sentence(diff)));
    if !diff.complete {
        lines.push(page.paint.with(yellow, "incomplete: not everything could be compared"));
    }
    for line in lines {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// A violation with an optional remark.
type RemarkedEntry<'d> = (&'d Entry, Option<String>);

struct DiffText<'d> {
    diff: &'d AuditDiff,
    names: ShownNames<'d>,
    paint: Paint,
}

impl<'d> DiffText<'d> {
    /// Returns a block for each rule that has violations of this class, with their remarks.
    fn class(
        &self,
        word: &str,
        style: Style,
        entries: impl Iterator<Item = (&'d Entry, Option<String>)>,
    ) -> Vec<String> {
        let mut rules: BTreeMap<(&str, &str), Vec<RemarkedEntry<'_>>> = BTreeMap::new();
        for (entry, remark) in entries {
            rules.entry((&entry.policy, &entry.rule)).or_default().push((entry, remark));
        }
        let mut lines = Vec::new();
        for entries in rules.into_values() {
            let Some((first, _)) = entries.first() else { continue };
            let namespaces: BTreeSet<_> = entries.iter().map(|(entry, _)| &entry.resource.namespace).collect();
            let places = match namespaces.len() {
                1 => String::new(),
                many => format!(" in {many} namespaces"),
            };
            let (word, rule) = (self.paint.with(style, &format!("{word}:")), self.paint.with(BOLD, &rule_name(first)));
            lines.push(format!("{word} {rule}, {}{places}", count(entries.len(), "violation")));
            lines.extend(entries.iter().take(EXAMPLES).map(|(entry, remark)| self.entry(entry, remark.as_deref())));
            lines.extend(self.more(entries.len()));
            lines.push(String::new());
        }
        lines
    }

    fn more(&self, number: usize) -> Option<String> {
        (number > EXAMPLES).then(|| self.paint.with(DIM, &format!("  and {} more", number - EXAMPLES)))
    }

    fn entry(&self, entry: &Entry, remark: Option<&str>) -> String {
        let result = self.paint.with(style_of(entry.result), entry.result.word());
        let severity = entry.severity.map_or(String::new(), |severity| format!(" {}", severity.word()));
        let message = shown_line(&message(entry));
        let remark = remark.map_or(String::new(), |remark| format!(" ({remark})"));
        let place = entry.location.as_ref().map_or(String::new(), |Location { file, line }| {
            format!("  {}", self.paint.with(DIM, &format!("{}:{line}", shown_line(file))))
        });
        format!("  {result}{severity}  {}  {message}{remark}{place}", self.names.object(&entry.resource))
    }

    fn errors(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for failed in self.diff.errors.iter().take(LINES) {
            let words = self.paint.with(style_of(failed.entry.result), &format!("fails {}:", side(failed.side)));
            let object = self.names.object(&failed.entry.resource);
            lines.push(format!(
                "{words} {}  {object}  {}",
                rule_name(&failed.entry),
                shown_line(&failed.entry.message)
            ));
        }
        lines.extend(self.left_out(self.diff.errors.len()));
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines
    }

    /// Returns a block for each reason why violations could not be compared.
    fn incomparable(&self) -> Vec<String> {
        let mut reasons: BTreeMap<(Side, String), Vec<&OneSidedEntry>> = BTreeMap::new();
        for one in &self.diff.incomparable {
            reasons.entry((one.side, reason(self.diff, one))).or_default().push(one);
        }
        let mut lines = Vec::new();
        for ((side, reason), entries) in reasons {
            let words = self.paint.with(AnsiColor::Yellow.on_default(), "not compared:");
            let number = count(entries.len(), "violation");
            lines.push(format!("{words} {number} from {}; {}", super::side(side), shown_line(&reason)));
            let rule = |one: &&OneSidedEntry| {
                format!("{}  {}", self.entry(&one.entry, None), self.paint.with(DIM, &rule_name(&one.entry)))
            };
            lines.extend(entries.iter().take(EXAMPLES).map(rule));
            lines.extend(self.more(entries.len()));
            lines.push(String::new());
        }
        lines
    }

    /// Returns a count table.
    fn table(&self, head: &str, rows: &[(String, Tally)]) -> Vec<String> {
        let number = rows.len();
        if number == 0 {
            return Vec::new();
        }
        let columns = columns(self.diff);
        let names: Vec<String> = rows.iter().take(LINES).map(|(name, _)| shown_line(name)).collect();
        let wide = names.iter().map(|name| columns_of(name)).chain([head.len()]).max().unwrap_or(0);
        let titles: Vec<&str> = columns.iter().map(|column| column.title).collect();
        let line = |(name, (_, tally)): (&String, &(String, Tally))| {
            let numbers = columns.iter().map(|column| format!("  {:>1$}", (column.count)(tally), column.title.len()));
            format!("{name}{}{}", " ".repeat(wide - columns_of(name)), numbers.collect::<String>())
        };
        let mut lines = vec![self.paint.with(DIM, &format!("{head:<wide$}  {}", titles.join("  ")))];
        lines.extend(names.iter().zip(rows).map(line));
        lines.extend(self.left_out(number));
        lines.push(String::new());
        lines
    }

    fn left_out(&self, number: usize) -> Option<String> {
        (number > LINES).then(|| self.paint.with(DIM, &format!("and {} more", number - LINES)))
    }
}
