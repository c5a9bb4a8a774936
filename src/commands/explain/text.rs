//! An explanation for people: the results, then the rule with the values below each line.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
};

use anstyle::Style;

use super::{
    explanation::{Explained, TracedDefinition},
    trace::ShownBody,
};
use crate::{
    audit::result::About,
    model::object::Location,
    output::{RenderOptions, shown_lines},
};

/// A line and its colour.
pub(super) type StyledLine = (Style, String);

pub(super) const PLAIN: Style = Style::new();
pub(super) const BOLD: Style = Style::new().bold();
pub(super) const DIM: Style = Style::new().dimmed();

pub(super) fn render(all: &[Explained], options: &RenderOptions, out: &mut dyn io::Write) -> io::Result<()> {
    let mut lines = Vec::new();
    for (index, explained) in all.iter().enumerate() {
        lines.extend((index > 0).then(|| (PLAIN, String::new())));
        lines.extend(head(explained));
        for definition in &explained.definitions {
            lines.push((PLAIN, String::new()));
            lines.extend(self::definition(definition));
        }
    }
    write(lines, options, out)
}

/// Writes lines in their colours, if colours are wanted.
pub(super) fn write(lines: Vec<StyledLine>, options: &RenderOptions, out: &mut dyn io::Write) -> io::Result<()> {
    for (style, line) in lines {
        let line = shown_lines(&line);
        if options.color { writeln!(out, "{style}{line}{style:#}")? } else { writeln!(out, "{line}")? }
    }
    Ok(())
}

/// Returns the object, the rule and its results.
fn head(explained: &Explained) -> Vec<StyledLine> {
    let object = &explained.resource;
    let place = explained.location.as_ref();
    let place = place.map_or(String::new(), |Location { file, line }| format!("  {file}:{line}"));
    let mut lines = vec![(BOLD, format!("{object}{place}"))];
    lines.extend(
        explained.generated.iter().map(|generated| (PLAIN, format!("evaluated as {generated}, which it would create"))),
    );
    lines.extend(about(&explained.policy, &explained.rule, &explained.about));
    lines.push((PLAIN, String::new()));
    for entry in &explained.results {
        lines.push((BOLD, format!("{}  {}  ({})", entry.result.word(), entry.message, entry.id)));
        lines.extend(explained.field_of(entry).map(|field| (BOLD, format!("field {field}"))));
    }
    lines.extend(explained.since.map(|since| (PLAIN, format!("since {since:.0}"))));
    if let Some(why) = &explained.not_asked {
        lines.push((BOLD, format!("passes: this rule is not evaluated for it: {why}")));
    } else if let Some(why) = &explained.not_reported {
        lines.push((BOLD, format!("passes: {why}")));
    } else if explained.results.is_empty() {
        lines.push((BOLD, "passes".to_owned()));
    }
    lines
}

/// Returns the name of a rule and its metadata.
pub(super) fn about(policy: &str, rule: &str, about: &About) -> Vec<StyledLine> {
    let About { title, description, severity, id, links, recommended_action, .. } = about;
    let mut lines = Vec::new();
    let severity = severity.map(|severity| severity.word().to_owned());
    let words = [title.as_deref().map(str::to_owned), id.as_deref().map(str::to_owned), severity];
    let words: Vec<String> = words.into_iter().flatten().collect();
    let words = if words.is_empty() { String::new() } else { format!(": {}", words.join(" · ")) };
    lines.push((PLAIN, format!("{policy}/{rule}{words}")));
    let description = description.as_deref().unwrap_or_default().trim();
    lines.extend(description.lines().map(|line| (DIM, format!("  {line}"))));
    let action = recommended_action.as_deref().unwrap_or_default();
    lines.extend(action.lines().map(|line| (DIM, format!("  {line}"))));
    lines.extend(links.iter().map(|link| (DIM, format!("  {}", link.reference))));
    lines
}

/// Returns the lines of a definition, with the values below each.
fn definition(definition: &TracedDefinition) -> Vec<StyledLine> {
    let TracedDefinition { file, line, lines, bodies } = definition;
    let outcome = match &bodies[..] {
        [] => "has no conditions".to_owned(),
        [only] => outcome(only),
        several => several.iter().map(outcome).collect::<Vec<_>>().join("; or: "),
    };
    let mut notes: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for body in bodies {
        let mut listed = BTreeSet::new();
        for statement in &body.statements {
            let values = statement.values.iter().map(|named| format!("{} = {}", named.name, named.value));
            // Values that are listed above are not repeated.
            notes.entry(statement.line).or_default().extend(values.filter(|value| listed.insert(value.clone())));
        }
        if let Some(failed) = &body.failed {
            let last = failed.line.max(*line);
            let own = notes.entry(last).or_default();
            own.push(failed.reason.clone());
            let values = failed.values.iter().map(|named| format!("{} = {}", named.name, named.value));
            own.extend(values.filter(|value| listed.insert(value.clone())));
        }
    }
    let mut shown = vec![(BOLD, format!("{file}:{line}: {outcome}"))];
    let wide = (*line as usize + lines.len()).to_string().len();
    for (number, text) in (*line..).zip(lines) {
        shown.push((PLAIN, format!("  {number:>wide$}  {text}").trim_end().to_owned()));
        let indent: String = text.chars().take_while(|c| c.is_whitespace()).collect();
        let space = " ".repeat(wide);
        let notes = notes.get(&number).into_iter().flatten();
        shown.extend(notes.map(|note| (DIM, format!("  {space}  {indent}# {note}"))));
    }
    shown
}

fn outcome(body: &ShownBody) -> String {
    match (body.holds, &body.failed) {
        (None, _) => "cannot be shown line by line".to_owned(),
        (Some(0), Some(failed)) => format!("does not hold at line {}", failed.line),
        (Some(0), None) => "does not hold".to_owned(),
        (Some(1), _) => "holds".to_owned(),
        (Some(ways), _) => format!("has {ways} solutions, the first of which is"),
    }
}
