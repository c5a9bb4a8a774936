//! The source lines of a rule.

/// Returns lines of a text, counted from 1, without their common indentation.
pub fn between(first: u32, last: u32, all: &[&str]) -> Vec<String> {
    let (skip, count) = (first.saturating_sub(1) as usize, (last.saturating_sub(first) + 1) as usize);
    let written: Vec<&str> = all.iter().copied().skip(skip).take(count).collect();
    let indent = written.iter().filter(|line| !line.trim().is_empty());
    let indent = indent.map(|line| line.len() - line.trim_start().len()).min().unwrap_or(0);
    written.into_iter().map(|line| line.get(indent..).unwrap_or_default().to_owned()).collect()
}
