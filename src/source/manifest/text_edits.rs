//! Edits in the text of a document that change single values, and preserve its comments and layout.

use std::{borrow::Cow, ops::Range};

use serde_json::{Map, Value};

use super::{
    field_lines::{LocatedChild, LocatedNode, NodeForm},
    value_change::ValueOperation,
};
use crate::rego::analysis::yaml::{self, YamlDialect};

/// The indentation of a nested mapping.
const INDENT: usize = 2;
const BLOCK_LIST: NodeForm = NodeForm::List { is_flow: false };

#[cfg(test)]
thread_local! {
    /// How many bytes [`parse`] has read.
    pub(super) static PARSED_BYTES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Returns the value of a document; `None` if it is not valid, or null.
pub(super) fn parse(text: &str) -> Option<Value> {
    #[cfg(test)]
    PARSED_BYTES.set(PARSED_BYTES.get() + text.len());
    let text = if text.ends_with('\n') { Cow::Borrowed(text) } else { format!("{text}\n").into() };
    Some(yaml::first(&text, YamlDialect::Kubectl).ok()??.root.json()).filter(|value| !value.is_null())
}

/// The text of a document; offsets are in bytes.
pub(super) struct DocumentText<'t> {
    pub(super) text: &'t str,
    /// It is JSON, and must remain JSON.
    pub(super) is_json: bool,
}

impl DocumentText<'_> {
    /// Returns the offset of the next `byte`.
    fn find(&self, from: usize, byte: u8) -> Option<usize> {
        Some(from + memchr::memchr(byte, self.text.as_bytes().get(from..)?)?)
    }

    /// Whether the byte before an offset ends a line.
    fn is_line_end(&self, place: usize) -> bool {
        place.checked_sub(1).is_some_and(|last| self.text.as_bytes().get(last) == Some(&b'\n'))
    }

    /// Writes a value in one line.
    fn flow(&self, value: &Value) -> String {
        if self.is_json { value.to_string() } else { flow(value) }
    }
}

/// A replacement of some bytes.
pub(super) struct Edit {
    pub(super) place: Range<usize>,
    pub(super) text: String,
}

/// Returns the edit that makes a change; `None` if it cannot be made in this text.
pub(super) fn edit(
    text: &DocumentText<'_>,
    root: &LocatedNode,
    path: &[&str],
    change: &ValueOperation,
) -> Option<Edit> {
    let (mut node, mut above) = (root, None);
    for (depth, key) in path.iter().enumerate() {
        let (is_last, rest) = (depth + 1 == path.len(), &path[depth + 1..]);
        let child = node.child(key);
        match (child, change) {
            (Some(child), ValueOperation::Remove) if is_last => return remove(text, node, child, above),
            (_, ValueOperation::Insert(value)) if is_last => return insert(text, node, key.parse().ok()?, value),
            (Some(child), ValueOperation::Insert(value)) if rest.len() == 1 && child.node.children.is_empty() => {
                return Some(replace(text, node, child, &Value::Array(vec![value.clone()])));
            }
            (Some(child), ValueOperation::Set(value)) if is_last || child.node.children.is_empty() => {
                return Some(replace(text, node, child, &nested(rest, value)));
            }
            (Some(child), _) => (node, above) = (&child.node, Some((node, child))),
            (None, ValueOperation::Set(value)) => return add(text, node, key, &nested(rest, value)),
            (None, _) => return None,
        }
    }
    None
}

/// Returns a value nested below these keys.
fn nested(keys: &[&str], value: &Value) -> Value {
    keys.iter().rev().fold(value.clone(), |value, key| Value::Object(Map::from_iter([((*key).to_owned(), value)])))
}

/// Returns the edit that replaces the value of a key.
fn replace(text: &DocumentText<'_>, node: &LocatedNode, child: &LocatedChild, value: &Value) -> Edit {
    let colon = text.find(child.key_place.end, b':').map_or(child.key_place.end, |at| at + 1);
    let old = &child.node.place;
    let is_collection = is_block_value(value);
    let in_block_mapping = node.form.is_block() && node.form.is_mapping();
    // Collections in block style begin on the line after the colon.
    if in_block_mapping && (is_collection || child.node.form.is_block() || old.is_empty()) {
        return Edit { place: colon..old.end.max(colon), text: block(value, child.column + INDENT) };
    }
    if old.is_empty() && node.form.is_mapping() {
        return Edit { place: colon..colon, text: format!(" {}", text.flow(value)) };
    }
    let space = if old.is_empty() { " " } else { "" };
    Edit { place: old.clone(), text: format!("{space}{}", text.flow(value)) }
}

/// Returns the edit that adds a key to a mapping; `None` if the node is not a mapping.
fn add(text: &DocumentText<'_>, node: &LocatedNode, key: &str, value: &Value) -> Option<Edit> {
    if !node.form.is_mapping() {
        return None;
    }
    let end = node.children.last().map(LocatedChild::end);
    if !node.form.is_block() {
        let member = format!("{}: {}", text.flow(&key.into()), text.flow(value));
        let at = end.unwrap_or(node.place.start + 1);
        return Some(Edit { place: at..at, text: if end.is_some() { format!(", {member}") } else { member } });
    }
    let (column, end) = (node.children.first()?.column, end?);
    let at = line_after(text.text, end);
    let line = format!("{}{}:{}\n", " ".repeat(column), flow(&key.into()), block(value, column + INDENT));
    Some(own_line(text, at, &line))
}

/// Returns the edit that inserts an item into a list at an index; `None` if the node is not such a list.
fn insert(text: &DocumentText<'_>, node: &LocatedNode, index: usize, value: &Value) -> Option<Edit> {
    let next = node.children.get(index);
    let last = index.checked_sub(1).map(|before| node.children.get(before));
    match (node.form, last) {
        (NodeForm::List { is_flow: true }, None) => {
            let (at, comma) = next.map_or((node.place.start + 1, ""), |next| (next.key_place.start, ", "));
            Some(Edit { place: at..at, text: format!("{}{comma}", text.flow(value)) })
        }
        (NodeForm::List { is_flow: true }, Some(last)) => {
            let at = last?.end();
            Some(Edit { place: at..at, text: format!(", {}", text.flow(value)) })
        }
        (NodeForm::List { is_flow: false }, last) => {
            let (line, column) = dash(text, node.children.first()?)?;
            let indent = " ".repeat(column);
            let item = block(value, column + INDENT);
            let item = item.trim_start();
            Some(match last {
                Some(last) => own_line(text, line_after(text.text, last?.end()), &format!("{indent}- {item}\n")),
                None => Edit { place: line + column..line + column, text: format!("- {item}\n{indent}") },
            })
        }
        _ => None,
    }
}

/// Returns the offset of the line on which an item of a list in block style begins, and the column of its dash; `None` if
/// the line has something else before the item than dashes.
fn dash(text: &DocumentText<'_>, item: &LocatedChild) -> Option<(usize, usize)> {
    let begin = item.key_place.start;
    let line = text.text.get(..begin)?.rfind('\n').map_or(0, |at| at + 1);
    let before = text.text.get(line..begin)?;
    let column = before.rfind('-')?;
    before.bytes().all(|byte| matches!(byte, b' ' | b'-')).then_some((line, column))
}

/// Returns the edit that inserts a line, which ends with a line break.
fn own_line(text: &DocumentText<'_>, at: usize, line: &str) -> Edit {
    let is_own_line = at == 0 || text.is_line_end(at);
    Edit { place: at..at, text: if is_own_line { line.to_owned() } else { format!("\n{}", line.trim_end()) } }
}

/// Returns the edit that removes a key or an item; the last one of a collection leaves `{}` or `[]`.
fn remove(
    text: &DocumentText<'_>,
    node: &LocatedNode,
    child: &LocatedChild,
    above: Option<(&LocatedNode, &LocatedChild)>,
) -> Option<Edit> {
    let position = node.children.iter().position(|other| std::ptr::eq(other, child))?;
    if node.children.len() == 1 {
        let (parent, own) = above?;
        let empty = if node.form.is_mapping() { Value::Object(Map::new()) } else { Value::Array(Vec::new()) };
        return Some(replace(text, parent, own, &empty));
    }
    let (begin, end) = (child.key_place.start, child.end());
    let line = begin.saturating_sub(child.column);
    let in_block_mapping = node.form.is_block() && node.form.is_mapping();
    let is_alone = |(line, column): &(usize, usize)| is_blank(text, *line..line + column);
    let place = if let Some((line, _)) = dash(text, child).filter(|_| node.form == BLOCK_LIST).filter(is_alone) {
        line..line_after(text.text, end)
    } else if in_block_mapping && is_blank(text, line..begin) {
        // A block scalar includes its last line break.
        line..line_after(text.text, end)
    } else if let Some(after) = flow_lines_end(text, end).filter(|_| is_blank(text, line..begin)) {
        line..after
    } else if let Some(next) = node.children.get(position + 1) {
        begin..next.key_place.start
    } else {
        let before = node.children[position.checked_sub(1)?].end();
        // A comment in between is about the value before it, and ends with its line.
        let has_comment = text.text.get(before..begin)?.contains('#');
        if has_comment { begin..end } else { before..end }
    };
    Some(Edit { place, text: String::new() })
}

/// Returns the offset of the line after a value in brackets and its comma; `None` if the line has another value after it, or
/// the text is JSON, in which the value before must not keep its comma.
fn flow_lines_end(text: &DocumentText<'_>, end: usize) -> Option<usize> {
    let after = line_after(text.text, end);
    let rest = text.text.get(end..after)?.trim_start();
    let rest = rest.strip_prefix(',').unwrap_or(rest).trim();
    (!text.is_json && (rest.is_empty() || rest.starts_with('#'))).then_some(after)
}

/// Whether a part of the text consists of spaces.
fn is_blank(text: &DocumentText<'_>, place: Range<usize>) -> bool {
    text.text.get(place).is_some_and(|indent| indent.bytes().all(|byte| byte == b' '))
}

/// Returns the offset of the line after a value with its trailing comment, or the end of the text. The end of a block scalar
/// is behind the line break that the parser adds to a text without one.
pub(super) fn line_after(text: &str, end: usize) -> usize {
    let Some((before, after)) = text.as_bytes().split_at_checked(end) else { return text.len() };
    let next = || memchr::memchr(b'\n', after).map_or(text.len(), |at| end + at + 1);
    if before.ends_with(b"\n") { end } else { next() }
}

/// Whether a value is written in block style: a mapping, or a list with one.
fn is_block_value(value: &Value) -> bool {
    match value {
        Value::Object(members) => !members.is_empty(),
        Value::Array(items) => items.iter().any(is_block_value),
        _ => false,
    }
}

/// Writes the value after a colon or a dash: mappings and lists of them in block style, indented to a column, other values
/// in one line.
fn block(value: &Value, column: usize) -> String {
    let indent = " ".repeat(column);
    match value {
        Value::Object(members) if !members.is_empty() => members.iter().fold(String::new(), |lines, (key, value)| {
            format!("{lines}\n{indent}{}:{}", flow(&key.as_str().into()), block(value, column + INDENT))
        }),
        Value::Array(items) if is_block_value(value) => items.iter().fold(String::new(), |lines, item| {
            format!("{lines}\n{indent}- {}", block(item, column + INDENT).trim_start())
        }),
        _ => format!(" {}", flow(value)),
    }
}

/// Writes a value in one line, with quotes only where a string needs them.
fn flow(value: &Value) -> String {
    let list = |items: Vec<String>| items.join(", ");
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        Value::Array(items) => format!("[{}]", list(items.iter().map(flow).collect())),
        Value::Object(members) => {
            let member = |(key, value): (&String, &Value)| format!("{}: {}", flow(&key.as_str().into()), flow(value));
            format!("{{{}}}", list(members.iter().map(member).collect()))
        }
        _ => value.to_string(),
    }
}

/// Whether a string needs no quotes.
fn is_plain(text: &str) -> bool {
    let is_simple = |character: char| character.is_ascii_alphanumeric() || "-_./".contains(character);
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(is_simple)
        && parse(text).is_some_and(|value| value == text)
}
