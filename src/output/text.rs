//! Results for people: grouped by object, the worst first, and one line that sums up.
//!
//! Messages and names come from policies and from everybody who may create objects, so nothing in them that could move a
//! cursor or reverse text reaches a terminal: see [`safe`](super::safe).

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    io,
};

use anstyle::AnsiColor;

use super::{
    format::{RenderOptions, StreamEvent, shown_time},
    safe::{no_command, shown, shown_line},
    style::{BOLD, DIM, GREEN, Paint, columns_of, count, style_of, wrap},
};
use crate::{
    audit::result::{
        AuditResult, BaselineEntry, BaselineSummary, Entry, ExceptionSummary, IncomparableEntry, PolicySummary,
    },
    cluster::identity::OWN_GROUP,
    model::{
        coverage::{Coverage, State},
        object::{Location, ObjectRef},
        verdict::{Outcome, Severity},
    },
    rego::problem::Problem,
};

/// Longer names of rules do not push the messages of all others to the right.
const WIDEST_RULE: usize = 40;
/// A message that has fewer columns than this goes below its rule.
const NARROWEST_MESSAGE: usize = 30;

/// Files that are named in the summary.
const NAMED: usize = 3;
/// Violations of a baseline that are named in the summary.
const NAMED_OF_BASELINE: usize = 10;

/// Writes all results, the summary, and what to do about what was not judged.
pub(super) fn render(result: &AuditResult, options: &RenderOptions, out: &mut dyn io::Write) -> io::Result<()> {
    let paint = Paint(options.color);
    let columns = Columns::of(&result.results, options.width);
    let ambiguous = ambiguous_kinds(&result.results);
    let mut objects: BTreeMap<(&ObjectRef, Option<&Location>), Vec<&Entry>> = BTreeMap::new();
    for entry in result.results.iter().filter(|entry| !is_known(entry)) {
        objects.entry((&*entry.resource, entry.location.as_ref())).or_default().push(entry);
    }
    for ((resource, location), mut entries) in objects {
        let with_group = ambiguous.contains(resource.kind.as_str());
        write!(out, "{}", paint.with(BOLD, &no_command(object_name(resource, with_group))))?;
        if let Some(Location { file, line }) = location {
            write!(out, "  {}", paint.with(DIM, &format!("{}:{line}", shown_line(file))))?;
        }
        writeln!(out)?;
        entries.sort_by_key(|entry| (entry.result, entry.severity.is_none(), entry.severity));
        for entry in entries {
            out.write_all(columns.entry(entry, paint).as_bytes())?;
        }
        writeln!(out)?;
    }
    for line in about_rules(result) {
        writeln!(out, "{}", paint.with(DIM, &no_command(line)))?;
    }
    for line in closing_lines(result, paint) {
        writeln!(out, "{line}")?;
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

/// Whether a result is in the baseline: whoever has one wants to see what is new.
fn is_known(entry: &Entry) -> bool {
    entry.excuse.as_ref().is_some_and(|excuse| excuse.is_baseline())
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
        let mut message =
            if entry.message.trim().is_empty() { "(no message)".to_owned() } else { shown(&entry.message) };
        if let Some(excuse) = &entry.excuse {
            let _ = write!(message, "\n{}", shown(&excuse.to_string()));
        }
        let lines: Vec<String> = wrap(message.trim_end(), room.max(1)).into_iter().map(no_command).collect();
        text.push_str(&lines.join(&format!("\n{}", " ".repeat(indent))));
        text.push('\n');
        text
    }
}

fn rule_name(entry: &Entry) -> String {
    shown_line(&format!("{}/{}", entry.policy, entry.rule))
}

fn object_name(resource: &ObjectRef, with_group: bool) -> String {
    let mut name = resource.kind.clone();
    if with_group && let Some((group, _)) = resource.api_version.split_once('/') {
        let _ = write!(name, ".{group}");
    }
    let namespace = resource.namespace.as_deref().unwrap_or_default();
    let slash = if namespace.is_empty() { "" } else { "/" };
    shown_line(&format!("{name} {namespace}{slash}{}", resource.name))
}

/// Returns the kinds that more than one group has, so that their name alone says too little.
fn ambiguous_kinds(entries: &[Entry]) -> BTreeSet<&str> {
    let mut groups: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for ObjectRef { kind, api_version, .. } in entries.iter().map(|entry| &*entry.resource) {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        groups.entry(kind).or_default().insert(group);
    }
    groups.into_iter().filter(|(_, groups)| groups.len() > 1).map(|(kind, _)| kind).collect()
}

/// Returns a line about each rule that has results and says more of itself than its name, and an empty one behind.
fn about_rules(result: &AuditResult) -> Vec<String> {
    let shown = result.results.iter().filter(|entry| !is_known(entry));
    let violated: BTreeSet<(&str, &str)> = shown.map(|entry| (&*entry.policy, &*entry.rule)).collect();
    let policies: BTreeMap<&str, &PolicySummary> =
        result.policies.iter().map(|policy| (policy.name.as_str(), policy)).collect();
    let line = |(policy, rule): (&str, &str)| {
        let policy = policies.get(policy)?;
        let about = policy.about_rules.get(rule).unwrap_or(&policy.about);
        let parts = [about.title.as_deref(), about.id.as_deref(), about.links.first().map(|link| &*link.reference)];
        let parts: Vec<String> = parts.into_iter().flatten().map(shown_line).collect();
        (!parts.is_empty())
            .then(|| format!("{}: {}", shown_line(&format!("{}/{rule}", policy.name)), parts.join(" · ")))
    };
    let mut lines: Vec<String> = violated.into_iter().filter_map(line).collect();
    if !lines.is_empty() {
        lines.push(String::new());
    }
    lines
}

/// Returns the summary, every kind that was not judged, and what to do about it.
fn closing_lines(result: &AuditResult, paint: Paint) -> Vec<String> {
    let summary = &result.summary;
    let kinds =
        result.coverage.iter().filter(|kind| kind.objects > 0 && !kind.is_gap() && kind.group != OWN_GROUP).count();
    let rules = result.policies.iter().map(|policy| policy.rules.len()).sum();
    let judged =
        format!("{} of {} judged by {}", count(summary.objects, "object"), count(kinds, "kind"), count(rules, "rule"));
    let known = result.baseline.as_ref().map_or(0, |baseline| baseline.known);
    let parts = [
        (summary.fail, "fail", style_of(Outcome::Fail)),
        (summary.warn, "warn", style_of(Outcome::Warn)),
        (summary.error, "error", style_of(Outcome::Error)),
        (summary.skip - known, "skipped", DIM),
        (known, "in the baseline", DIM),
    ];
    let mut counts: Vec<String> = parts
        .into_iter()
        .filter(|(number, ..)| *number > 0)
        .map(|(number, word, style)| paint.with(style, &format!("{number} {word}")))
        .collect();
    counts.push(format!("{} pass", summary.pass));
    let is_compared = result.baseline.as_ref().is_none_or(|baseline| baseline.incomparable.is_empty());
    let clean = result.complete && is_compared && summary.fail + summary.warn + summary.error == 0;
    let (clean, then) = if clean { (format!("{}: ", paint.with(GREEN, "clean")), ",") } else { (String::new(), ":") };

    let gaps: Vec<&Coverage> = result.coverage.iter().filter(|kind| kind.is_gap()).collect();
    let mut lines: Vec<String> = gaps.iter().map(|gap| gap_line(gap, paint)).collect();
    lines.extend(result.refused.iter().map(|problem| refused_line(problem, paint)));
    lines.extend(not_judged_line(result.not_judged.len(), paint));
    lines.extend(result.exceptions.iter().filter_map(|exception| exception_line(exception, paint)));
    lines.extend(result.baseline.iter().flat_map(|baseline| baseline_lines(baseline, paint)));
    lines.extend(advice(&gaps, summary.error));
    if !lines.is_empty() {
        lines.push(String::new());
    }
    lines.push(format!("{clean}{judged}{then} {}{}", counts.join(", "), left_out(&result.coverage)));
    if !result.complete {
        lines.push(paint.with(AnsiColor::Yellow.on_default(), "incomplete: not everything was judged"));
    }
    if !is_compared {
        let words = "incomplete: not everything could be compared with the baseline";
        lines.push(paint.with(AnsiColor::Yellow.on_default(), words));
    }
    lines
}

/// Names the first files in which tools have their settings, and counts the others.
fn left_out(coverage: &[Coverage]) -> String {
    let files: Vec<String> = coverage.iter().filter_map(Coverage::settings_file).map(shown_line).collect();
    match files.len().checked_sub(NAMED) {
        _ if files.is_empty() => String::new(),
        None | Some(0) => format!("; skipped without objects: {}", files.join(", ")),
        Some(more) => {
            format!("; skipped without objects: {} and {}", files[..NAMED].join(", "), count(more, "more file"))
        }
    }
}

fn not_judged_line(number: usize, paint: Paint) -> Option<String> {
    let words = paint.with(AnsiColor::Yellow.on_default(), "not judged by:");
    (number > 0).then(|| format!("{words} {number} of the templates and Constraints; kaudit policies tells why"))
}

/// Says what differs from the baseline, the first of each sort by name.
fn baseline_lines(baseline: &BaselineSummary, paint: Paint) -> Vec<String> {
    let name = |entry: &BaselineEntry| format!("{} {}, {}/{}", entry.kind, entry.name, entry.policy, entry.rule);
    let fixed = baseline.fixed.iter().map(|entry| ("fixed:", GREEN, name(entry)));
    let incomparable = baseline.incomparable.iter().map(|IncomparableEntry { entry, reason }| {
        ("not compared:", AnsiColor::Yellow.on_default(), format!("{}: {reason}", name(entry)))
    });
    let sorts: [Vec<_>; 2] = [incomparable.collect(), fixed.collect()];
    let mut lines = Vec::new();
    for sort in &sorts {
        let shown = sort.iter().take(NAMED_OF_BASELINE);
        lines.extend(shown.map(|(words, style, text)| format!("{} {}", paint.with(*style, words), shown_line(text))));
        if let Some((words, style, _)) = sort.get(NAMED_OF_BASELINE) {
            lines.push(format!("{} {} more", paint.with(*style, words), sort.len() - NAMED_OF_BASELINE));
        }
    }
    if !baseline.fixed.is_empty() {
        lines.push("  --prune-baseline removes from the baseline what is fixed".to_owned());
    }
    lines
}

/// Points at an exception that somebody should look at.
fn exception_line(exception: &ExceptionSummary, paint: Paint) -> Option<String> {
    let place = exception.location.as_ref().map_or(String::new(), |at| format!("{}:{}: ", at.file, at.line));
    let words = paint.with(AnsiColor::Yellow.on_default(), "exception:");
    let line = shown_line(&format!("{place}{}: {}", exception.name, exception.message));
    (!exception.message.is_empty()).then(|| format!("{words} {line}"))
}

fn refused_line(problem: &Problem, paint: Paint) -> String {
    let words = paint.with(AnsiColor::Yellow.on_default(), "not judged by:");
    format!("{words} {}: {}", shown_line(&problem.place()), shown_line(&problem.message))
}

fn gap_line(gap: &Coverage, paint: Paint) -> String {
    if gap.is_documents() {
        let words = paint.with(AnsiColor::Yellow.on_default(), "not read:");
        return format!("{words} {}", shown_line(&gap.message));
    }
    let why = match gap.state {
        State::Forbidden => "forbidden",
        State::TimedOut => "timed out",
        State::Syncing => "still syncing",
        State::Failed | State::Synced | State::Excluded => "failed",
    };
    let colon = if gap.message.is_empty() { "" } else { ": " };
    let words = paint.with(AnsiColor::Yellow.on_default(), "not judged:");
    format!("{words} {} ({why}{colon}{})", shown_line(&gap.name()), shown_line(&gap.message))
}

/// Returns one line for each sort of gap, however many kinds it concerns.
fn advice(gaps: &[&Coverage], errors: usize) -> Vec<String> {
    let first =
        |state: State| gaps.iter().find(|gap| gap.state == state && !gap.is_documents()).map(|gap| quoted(&gap.name()));
    let mut lines = Vec::new();
    if let Some(name) = first(State::Forbidden) {
        lines.push(format!("  Grant list and watch on what is forbidden, or leave it out: --exclude {name}"));
    }
    if let Some(name) = first(State::Failed) {
        lines.push(format!("  What failed is often an API whose server is down; to leave it out: --exclude {name}"));
    }
    if first(State::TimedOut).is_some() {
        lines.push("  Give a large or slow cluster more time: --sync-timeout 5m".to_owned());
    }
    if errors > 0 {
        lines.push("  Where a policy itself failed (error), it did not judge the object".to_owned());
    }
    lines
}

/// Quotes what a shell would expand.
fn quoted(name: &str) -> String {
    if name.contains('*') { format!("'{}'", shown_line(name)) } else { shown_line(name) }
}
