//! Results for people: by namespace and object, the most severe first, then tables and a closing sentence.
//!
//! Messages and names come from policies and from everyone who may create objects, so control characters in them are
//! escaped before they reach a terminal: see [`safe`](super::safe).

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    io,
};

use super::{
    format::{RenderOptions, shown_time},
    names::{ShownNames, is_only_counted, message, object_name, rule_name},
    rules::RuleCatalog,
    safe::shown_line,
    style::{BOLD, DIM, GREEN, Paint, columns_of, severity_style, style_of, wrap},
    summary::closing_lines,
    tables::{namespace, tables},
};
use crate::{
    audit::{
        ledger::Lifecycle,
        result::{AuditResult, Entry},
    },
    model::{
        object::{Location, ObjectRef},
        verdict::{Outcome, Severity},
    },
};

/// Maximum width of the column of rule names; messages of longer rule names go below the rule.
const WIDEST_RULE: usize = 40;
/// Minimum width of a message beside its rule; otherwise it goes below the rule.
const NARROWEST_MESSAGE: usize = 30;
/// Number of results from which there are summary tables.
const TABLES_FROM: usize = 30;

/// Writes all results, tables, and the summary with advice.
pub(super) fn render(result: &AuditResult, options: &RenderOptions, out: &mut dyn io::Write) -> io::Result<()> {
    let paint = Paint(options.color);
    let entries: Vec<&Entry> = result.results.iter().filter(|entry| !is_only_counted(entry)).collect();
    if !options.summary {
        List::new(result, options).render(&entries, out)?;
    }
    if options.verbose {
        for line in about_rules(result) {
            writeln!(out, "{}", paint.with(DIM, &line))?;
        }
    }
    if options.summary || entries.len() >= TABLES_FROM {
        for line in tables(result, &entries, options.width, paint) {
            writeln!(out, "{line}")?;
        }
    }
    for line in closing_lines(result, paint) {
        let indent = " ".repeat(line.len() - line.trim_start_matches(' ').len());
        let lines = wrap(&line, options.width.saturating_sub(indent.len()).max(1));
        writeln!(out, "{}", lines.join(&format!("\n{indent}")))?;
    }
    Ok(())
}

/// The list of all results by namespace and object, the most severe first.
struct List<'r> {
    names: ShownNames<'r>,
    rules: RuleCatalog<'r>,
    columns: Columns,
    paint: Paint,
}

/// An object with its results, the most severe first.
type Listed<'r> = ((&'r ObjectRef, Option<&'r Location>), Vec<&'r Entry>);

impl<'r> List<'r> {
    fn new(result: &'r AuditResult, options: &RenderOptions) -> Self {
        let rules = RuleCatalog::of(result);
        Self {
            columns: Columns::of(&result.results, &rules, options.width),
            names: ShownNames::of(&result.results),
            rules,
            paint: Paint(options.color),
        }
    }

    fn render(&self, entries: &[&'r Entry], out: &mut dyn io::Write) -> io::Result<()> {
        let mut namespaces: BTreeMap<_, BTreeMap<_, Vec<&Entry>>> = BTreeMap::new();
        for entry in entries {
            let ObjectRef { cluster, namespace, .. } = &*entry.resource;
            let objects = namespaces.entry((cluster.as_deref(), namespace.as_deref())).or_default();
            objects.entry((&*entry.resource, entry.location.as_ref())).or_default().push(entry);
        }
        let mut namespaces: Vec<Vec<Listed<'_>>> = namespaces.into_values().map(sorted).collect();
        namespaces.sort_by_key(|objects| objects.first().map(|(_, entries)| worst(entries)));
        let has_several = namespaces.len() > 1;
        for objects in namespaces {
            if has_several {
                self.heading(&objects, out)?;
            }
            for object in objects {
                self.object(object, out)?;
            }
        }
        Ok(())
    }

    /// Writes the name of a namespace and its number of violations by severity.
    fn heading(&self, objects: &[Listed<'_>], out: &mut dyn io::Write) -> io::Result<()> {
        let Some(((resource, _), _)) = objects.first() else { return Ok(()) };
        let mut counts: BTreeMap<(bool, Option<Severity>), usize> = BTreeMap::new();
        for entry in objects.iter().flat_map(|(_, entries)| entries).filter(|entry| entry.result.is_violation()) {
            *counts.entry((entry.severity.is_none(), entry.severity)).or_default() += 1;
        }
        let parts = counts.iter().map(|((_, severity), number)| {
            let word = severity.map_or("without severity", Severity::word);
            self.paint.with(severity_style(*severity), &format!("{number} {word}"))
        });
        let parts: Vec<String> = parts.collect();
        let colon = if parts.is_empty() { "" } else { ": " };
        writeln!(out, "{}{colon}{}\n", self.paint.with(BOLD, &namespace(resource)), parts.join(", "))
    }

    fn object(&self, ((resource, location), entries): Listed<'_>, out: &mut dyn io::Write) -> io::Result<()> {
        write!(out, "{}", self.paint.with(BOLD, &self.names.object(resource)))?;
        if let Some(Location { file, line }) = location {
            write!(out, "  {}", self.paint.with(DIM, &format!("{}:{line}", shown_line(file))))?;
        }
        writeln!(out)?;
        for entry in entries {
            out.write_all(self.columns.entry(entry, &short_name(entry, &self.rules), self.paint).as_bytes())?;
        }
        writeln!(out)
    }
}

/// Sorts the results of each object, and the objects by their most severe result, number of results, and name.
fn sorted<'r>(objects: BTreeMap<(&'r ObjectRef, Option<&'r Location>), Vec<&'r Entry>>) -> Vec<Listed<'r>> {
    let mut objects: Vec<Listed<'r>> = objects.into_iter().collect();
    for (_, entries) in &mut objects {
        entries.sort_by_key(|entry| severest(entry));
    }
    objects.sort_by_key(|(_, entries)| (worst(entries), Reverse(entries.len())));
    objects
}

fn worst(entries: &[&Entry]) -> Option<impl Ord + use<>> {
    entries.iter().map(|entry| severest(entry)).min()
}

/// Returns a key that sorts results by severity, then by outcome; excused ones are last.
fn severest(entry: &Entry) -> impl Ord + use<> {
    (entry.result == Outcome::Skip, entry.severity.is_none(), entry.severity, entry.result)
}

/// Returns the id of a result's rule, or else `policy/rule`.
fn short_name(entry: &Entry, rules: &RuleCatalog<'_>) -> String {
    let id = rules.about(&entry.policy, &entry.rule).and_then(|about| about.id.as_deref());
    id.map_or_else(|| rule_name(entry), shown_line)
}

/// Writes one line about one violation; line breaks in the message are escaped.
pub(super) fn stream_line(
    event: Lifecycle,
    entry: &Entry,
    time: jiff::Timestamp,
    options: &RenderOptions,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let paint = Paint(options.color);
    let (word, style) = match event {
        Lifecycle::Appeared => ("appeared", style_of(entry.result)),
        Lifecycle::Resolved => ("resolved", GREEN),
        Lifecycle::Happened => ("happened", style_of(entry.result)),
    };
    let severity = entry.severity.map_or(String::new(), |severity| format!(" {}", severity.word()));
    writeln!(
        out,
        "{} {} {}{severity} {} {} {}",
        paint.with(DIM, &shown_time(time)),
        paint.with(style, word),
        paint.with(style, entry.result.word()),
        paint.with(BOLD, &object_name(&entry.resource, false)),
        paint.with(DIM, &rule_name(entry)),
        shown_line(&entry.message),
    )
}

/// The widths of the columns of the list.
struct Columns {
    severity: usize,
    rule: usize,
    /// Width of a message next to its rule; with `None`, messages are written below the rule.
    message: Option<usize>,
    width: usize,
}

impl Columns {
    fn of(entries: &[Entry], rules: &RuleCatalog<'_>, width: usize) -> Self {
        let severities = entries.iter().filter_map(|entry| entry.severity.map(Severity::word));
        let severity = severities.map(|name| name.len() + 2).max().unwrap_or(0);
        let names = entries.iter().map(|entry| columns_of(&short_name(entry, rules)));
        let rule = names.filter(|wide| *wide <= WIDEST_RULE).max().unwrap_or(0);
        let message =
            width.checked_sub(Self::before_rule(severity) + rule + 2).filter(|left| *left >= NARROWEST_MESSAGE);
        Self { severity, rule, message, width }
    }

    /// Indent of two, the severity, the outcome and a gap of two.
    fn before_rule(severity: usize) -> usize {
        2 + severity + 5 + 2
    }

    fn entry(&self, entry: &Entry, rule: &str, paint: Paint) -> String {
        let (word, style) = (entry.result.word(), style_of(entry.result));
        let severity = entry.severity.map_or("", Severity::word);
        let pad = " ".repeat(self.severity.saturating_sub(severity.len()));
        let severity = paint.with(severity_style(entry.severity), severity);
        let mut text = format!("  {severity}{pad}{}{}", paint.with(style, word), " ".repeat(7 - word.len()));
        text.push_str(&paint.with(DIM, rule));
        let beside = self.message.filter(|_| columns_of(rule) <= self.rule);
        let (indent, room) = if let Some(room) = beside {
            text.push_str(&" ".repeat(self.rule + 2 - columns_of(rule)));
            (Self::before_rule(self.severity) + self.rule + 2, room)
        } else {
            let indent = if self.message.is_some() { Self::before_rule(self.severity) } else { 4 };
            text.push('\n');
            text.push_str(&" ".repeat(indent));
            (indent, self.width.saturating_sub(indent))
        };
        let mut message = message(entry);
        if let Some(line) = entry.field_line {
            let _ = write!(message, " (line {line})");
        }
        let lines = wrap(&message, room.max(1));
        text.push_str(&lines.join(&format!("\n{}", " ".repeat(indent))));
        text.push('\n');
        text
    }
}

/// Returns a line for each rule that has results and annotations, followed by an empty line.
fn about_rules(result: &AuditResult) -> Vec<String> {
    let shown = result.results.iter().filter(|entry| !is_only_counted(entry));
    let violated: BTreeSet<(&str, &str)> = shown.map(|entry| (&*entry.policy, &*entry.rule)).collect();
    let rules = RuleCatalog::of(result);
    let line = |(policy, rule): (&str, &str)| {
        let about = rules.about(policy, rule)?;
        let parts = [about.title.as_deref(), about.id.as_deref(), about.links.first().map(|link| &*link.reference)];
        let parts: Vec<String> = parts.into_iter().flatten().map(shown_line).collect();
        (!parts.is_empty()).then(|| format!("{}: {}", shown_line(&format!("{policy}/{rule}")), parts.join(" · ")))
    };
    let mut lines: Vec<String> = violated.into_iter().filter_map(line).collect();
    if !lines.is_empty() {
        lines.push(String::new());
    }
    lines
}
