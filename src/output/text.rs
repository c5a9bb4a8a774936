//! Results for people: grouped by object, the worst first, and one line that sums up.
//!
//! Messages and names come from policies and from everybody who may create objects, so nothing in them that could move a
//! cursor or reverse text reaches a terminal: see [`safe`](super::safe).

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    io,
};

use super::{
    format::{RenderOptions, StreamEvent, shown_time},
    names::{Names, is_known, message, object_name, rule_name, urgency},
    rules::Rules,
    safe::shown_line,
    style::{BOLD, DIM, GREEN, Paint, columns_of, style_of, wrap},
    summary::closing_lines,
};
use crate::{
    audit::result::{AuditResult, Entry},
    model::{
        object::{Location, ObjectRef},
        verdict::Severity,
    },
};

/// Longer names of rules do not push the messages of all others to the right.
const WIDEST_RULE: usize = 40;
/// A message that has fewer columns than this goes below its rule.
const NARROWEST_MESSAGE: usize = 30;

/// Writes all results, the summary, and what to do about what was not judged.
pub(super) fn render(result: &AuditResult, options: &RenderOptions, out: &mut dyn io::Write) -> io::Result<()> {
    let paint = Paint(options.color);
    let columns = Columns::of(&result.results, options.width);
    let names = Names::of(&result.results);
    let mut objects: BTreeMap<(&ObjectRef, Option<&Location>), Vec<&Entry>> = BTreeMap::new();
    for entry in result.results.iter().filter(|entry| !is_known(entry)) {
        objects.entry((&*entry.resource, entry.location.as_ref())).or_default().push(entry);
    }
    for ((resource, location), mut entries) in objects {
        write!(out, "{}", paint.with(BOLD, &names.object(resource)))?;
        if let Some(Location { file, line }) = location {
            write!(out, "  {}", paint.with(DIM, &format!("{}:{line}", shown_line(file))))?;
        }
        writeln!(out)?;
        entries.sort_by_key(|entry| urgency(entry));
        for entry in entries {
            out.write_all(columns.entry(entry, paint).as_bytes())?;
        }
        writeln!(out)?;
    }
    for line in about_rules(result) {
        writeln!(out, "{}", paint.with(DIM, &line))?;
    }
    for line in closing_lines(result, paint) {
        let indent = " ".repeat(line.len() - line.trim_start_matches(' ').len());
        let lines = wrap(&line, options.width.saturating_sub(indent.len()).max(1));
        writeln!(out, "{}", lines.join(&format!("\n{indent}")))?;
    }
    Ok(())
}

/// Writes one line about one violation; a message of several lines becomes one.
pub(super) fn stream_line(
    event: StreamEvent,
    entry: &Entry,
    time: jiff::Timestamp,
    options: &RenderOptions,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let paint = Paint(options.color);
    let (word, style) = match event {
        StreamEvent::Appeared => ("appeared", style_of(entry.result)),
        StreamEvent::Resolved => ("resolved", GREEN),
        StreamEvent::Happened => ("happened", style_of(entry.result)),
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

/// How the lines of all results are aligned.
struct Columns {
    severity: usize,
    rule: usize,
    /// Columns for a message beside its rule; `None` puts messages below.
    message: Option<usize>,
    width: usize,
}

impl Columns {
    fn of(entries: &[Entry], width: usize) -> Self {
        let severities = entries.iter().filter_map(|entry| entry.severity.map(Severity::word));
        let severity = severities.map(|name| name.len() + 2).max().unwrap_or(0);
        let rules = entries.iter().map(|entry| columns_of(&rule_name(entry)));
        let rule = rules.filter(|wide| *wide <= WIDEST_RULE).max().unwrap_or(0);
        let message =
            width.checked_sub(Self::before_rule(severity) + rule + 2).filter(|left| *left >= NARROWEST_MESSAGE);
        Self { severity, rule, message, width }
    }

    /// Two to indent, the level, two of space and the severity.
    fn before_rule(severity: usize) -> usize {
        2 + 5 + 2 + severity
    }

    fn entry(&self, entry: &Entry, paint: Paint) -> String {
        let (word, style) = (entry.result.word(), style_of(entry.result));
        let severity = entry.severity.map_or("", Severity::word);
        let rule = rule_name(entry);
        let mut text = format!("  {}{}", paint.with(style, word), " ".repeat(7 - word.len()));
        let _ = write!(text, "{severity:<0$}{1}", self.severity, paint.with(DIM, &rule));
        let beside = self.message.filter(|_| columns_of(&rule) <= self.rule);
        let (indent, room) = if let Some(room) = beside {
            text.push_str(&" ".repeat(self.rule + 2 - columns_of(&rule)));
            (Self::before_rule(self.severity) + self.rule + 2, room)
        } else {
            let indent = if self.message.is_some() { Self::before_rule(self.severity) } else { 4 };
            text.push('\n');
            text.push_str(&" ".repeat(indent));
            (indent, self.width.saturating_sub(indent))
        };
        let lines = wrap(&message(entry), room.max(1));
        text.push_str(&lines.join(&format!("\n{}", " ".repeat(indent))));
        text.push('\n');
        text
    }
}

/// Returns a line about each rule that has results and says more of itself than its name, and an empty one behind.
fn about_rules(result: &AuditResult) -> Vec<String> {
    let shown = result.results.iter().filter(|entry| !is_known(entry));
    let violated: BTreeSet<(&str, &str)> = shown.map(|entry| (&*entry.policy, &*entry.rule)).collect();
    let rules = Rules::of(result);
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
