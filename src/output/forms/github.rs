//! GitHub annotations: workflow commands in the log of a step, followed by the summary.
//!
//! GitHub shows ten errors and ten warnings per step and silently drops the rest, so the last annotation counts the
//! others.

use std::io::{self, Write as _};

use super::anchor::Anchor;
use crate::{
    audit::result::{AuditResult, Entry},
    model::{text::shortened, verdict::Outcome},
    output::{
        format::RenderOptions,
        names::{ShownNames, message, rule_name, worst_first},
        safe::Guarded,
        style::{Paint, count},
        summary::{closing_lines, gap_lines},
    },
};

/// Maximum number of annotations per level and step.
const ANNOTATIONS: usize = 10;
/// Maximum length of a message.
const MESSAGE_BYTES: usize = 4_096;

/// Writes the annotations and the summary.
pub(crate) fn render(result: &AuditResult, options: &RenderOptions, out: &mut dyn io::Write) -> io::Result<()> {
    let names = ShownNames::of(&result.results);
    let worst = worst_first(&result.results);
    let of = |level: &str, outcomes: [Outcome; 2]| -> Vec<String> {
        let entries = worst.iter().filter(|entry| outcomes.contains(&entry.result));
        entries.map(|entry| annotation(level, entry, &Anchor::of(entry, options.tree.as_ref()), &names)).collect()
    };
    let errors = of("error", [Outcome::Fail, Outcome::Error]);
    let gaps = gap_lines(result, Paint(false));
    let incomplete = (!gaps.is_empty())
        .then(|| command("warning", "title=kaudit", &format!("not everything was checked\n{}", gaps.join("\n"))));
    let warnings = incomplete.into_iter().chain(of("warning", [Outcome::Warn; 2])).collect();
    for (level, annotations) in [("error", errors), ("warning", warnings)] {
        for line in limited(level, annotations) {
            writeln!(out, "{line}")?;
        }
    }
    // The summary must not contain commands.
    let mut out = Guarded::new(out);
    for line in closing_lines(result, Paint(false)) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Keeps as many annotations as GitHub shows.
fn limited(level: &str, mut annotations: Vec<String>) -> Vec<String> {
    if annotations.len() > ANNOTATIONS {
        let more = annotations.len() - (ANNOTATIONS - 1);
        annotations.truncate(ANNOTATIONS - 1);
        annotations.push(command(level, "title=kaudit", &format!("and {}", count(more, &format!("more {level}")))));
    }
    annotations
}

fn annotation(level: &str, entry: &Entry, anchor: &Anchor, names: &ShownNames<'_>) -> String {
    let severity = entry.severity.map_or(String::new(), |severity| format!(" ({})", severity.word()));
    let error = if entry.result == Outcome::Error { "could not be evaluated: " } else { "" };
    let (file, title) = (property(&anchor.file()), property(&(rule_name(entry) + &severity)));
    let properties = format!("file={file},line={},title={title}", anchor.line);
    command(level, &properties, &format!("{}: {error}{}", names.object(&entry.resource), message(entry)))
}

fn command(level: &str, properties: &str, message: &str) -> String {
    format!("::{level} {properties}::{}", data(shortened(message, MESSAGE_BYTES).as_ref()))
}

/// Escapes the characters that end a command, as the runner's `ActionCommand` decodes them.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Also escapes the characters that end a property.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
