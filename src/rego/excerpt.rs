//! The lines of a rule as they are written.

use regorus::unstable::Rule;

/// Returns the first line of a definition, from 1, and its lines among those of its module, without what all are indented by.
pub(crate) fn lines(rule: &Rule, all: &[&str]) -> (u32, Vec<String>) {
    let span = rule.span();
    let first = span.line;
    let mut last = first + breaks(span.text());
    if let Rule::Spec { bodies, .. } = rule {
        let statements = bodies.iter().flat_map(|body| &body.query.stmts);
        last = statements.map(|statement| statement.span.line + breaks(statement.span.text())).fold(last, u32::max);
    }
    let closes = |line: &&&str| line.trim().starts_with(['}', ')', ']']);
    let behind = all.iter().skip(last as usize).take_while(closes).count();
    (first, between(first, last + u32::try_from(behind).unwrap_or(0), all))
}

/// Returns lines of a text, counted from 1, without what all are indented by.
pub(crate) fn between(first: u32, last: u32, all: &[&str]) -> Vec<String> {
    let (skip, count) = (first.saturating_sub(1) as usize, (last.saturating_sub(first) + 1) as usize);
    let written: Vec<&str> = all.iter().copied().skip(skip).take(count).collect();
    let indent = written.iter().filter(|line| !line.trim().is_empty());
    let indent = indent.map(|line| line.len() - line.trim_start().len()).min().unwrap_or(0);
    written.into_iter().map(|line| line.get(indent..).unwrap_or_default().to_owned()).collect()
}

fn breaks(text: &str) -> u32 {
    u32::try_from(text.trim_end().matches('\n').count()).unwrap_or(0)
}
