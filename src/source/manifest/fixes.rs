//! Sets fields of objects in the text of a manifest, and preserves its comments and layout.

use std::{borrow::Cow, collections::BTreeMap, ops::Range, sync::Arc};

use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::field_lines::{FieldLines, LocatedChild, LocatedNode, ObjectPlace, keys};
use crate::{
    model::object::ObjectRef,
    rego::analysis::yaml::{self, YamlDialect},
};

/// The indentation of a nested mapping.
const INDENT: usize = 2;
/// The byte order mark.
const MARK: &str = "\u{feff}";

/// A field of an object and its new value.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldFix {
    /// Written as in `spec.containers[0].image`, other keys as in `labels["example.com/a"]`.
    pub field: String,
    /// Null removes the field.
    pub value: Value,
}

/// An object of a file and its fixes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FixedObject {
    /// The object.
    pub object: Arc<ObjectRef>,
    /// In any order.
    pub fixes: Vec<FieldFix>,
}

/// The text of a file of manifests, to be fixed.
#[derive(Debug)]
pub struct ManifestText {
    /// The byte order mark before the text, or nothing.
    mark: &'static str,
    text: String,
    /// `None` if the text is not YAML.
    lines: Option<FieldLines>,
}

/// A document of a file, before and after a fix.
#[derive(Debug)]
pub struct FixedDocument {
    /// Its first line in the file, from 1.
    pub line: usize,
    /// Its text before the fix.
    pub old: String,
    /// Its text after the fix.
    pub new: String,
}

impl ManifestText {
    /// Parses the text of a file.
    pub fn new(text: &str) -> Self {
        let (mark, text) = text.strip_prefix(MARK).map_or(("", text), |text| (MARK, text));
        Self { mark, text: text.to_owned(), lines: FieldLines::parse(text.as_bytes()) }
    }

    /// Returns the text with the fixes of objects, each identified by its first line, and how many fixes were applied.
    /// The text is unchanged where a fix cannot be applied: it is not plain YAML, the parent of the field is missing,
    /// or another fix sets the same field to another value.
    pub fn fixed(&self, mut objects: BTreeMap<usize, FixedObject>) -> (String, usize) {
        let (mut new, mut applied) = (self.text.clone(), 0);
        // From the end, so that earlier lines keep their numbers.
        while let Some((line, object)) = objects.pop_last() {
            let place = self.lines.as_ref().and_then(|lines| lines.object(line));
            if let Some((range, document, fixes)) = place.and_then(|place| fix_in(&new, &place, &object)) {
                new.replace_range(range, &document);
                applied += fixes;
            }
        }
        (format!("{}{new}", self.mark), applied)
    }

    /// Returns the document of an object, before and after its fixes; `None` if none can be applied, or they change
    /// nothing.
    pub fn fixed_document(&self, line: usize, object: &FixedObject) -> Option<FixedDocument> {
        let place = self.lines.as_ref()?.object(line)?;
        let (range, new, applied) = fix_in(&self.text, &place, object)?;
        let mark = if range.start == 0 { self.mark } else { "" };
        let old = &self.text[range];
        (applied > 0 && new != old).then(|| FixedDocument {
            line: place.line,
            old: format!("{mark}{old}"),
            new: format!("{mark}{new}"),
        })
    }
}

/// Applies the fixes of one object to its document. Returns the range of the document in the text, its new text, and
/// how many fixes were applied.
fn fix_in(text: &str, place: &ObjectPlace, object: &FixedObject) -> Option<(Range<usize>, String, usize)> {
    let begin = offset(text, place.line);
    // The document may be longer than it was: objects of one List are fixed one after the other.
    let range = begin..begin + document_length(&text[begin..]);
    let mut document = EditedDocument::new(&text[range.clone()])?;
    if !document.holds(&place.keys, &object.object) {
        return None;
    }
    let applied = object.fixes.iter().filter(|fix| document.apply(&place.keys, fix)).count();
    Some((range, document.text, applied))
}

/// Returns the offset of a line, which is counted from 1.
fn offset(text: &str, line: usize) -> usize {
    let Some(breaks) = line.checked_sub(2) else { return 0 };
    text.match_indices('\n').nth(breaks).map_or(text.len(), |(at, _)| at + 1)
}

/// Returns the length of the first document of a text.
fn document_length(text: &str) -> usize {
    let is_end = |line: &str| ["---", "..."].iter().any(|mark| line.starts_with(mark));
    let before = text.split_inclusive('\n').take_while(|line| !is_end(line));
    before.map(str::len).sum()
}

/// A document to which fixes are applied.
struct EditedDocument {
    text: String,
    is_json: bool,
    value: Value,
    /// The fixes applied before.
    fixed: Vec<FieldFix>,
}

impl EditedDocument {
    fn new(text: &str) -> Option<Self> {
        Some(Self { text: text.to_owned(), is_json: is_json(text), value: parse(text)?, fixed: Vec::new() })
    }

    /// Whether the document contains this object at this position: the location of a rendered object is its template.
    fn holds(&self, place: &[String], object: &ObjectRef) -> bool {
        let found = place.iter().try_fold(&self.value, |value, key| match value {
            Value::Array(items) => items.get(key.parse::<usize>().ok()?),
            _ => value.get(key),
        });
        // Items of a PodList need not have a kind.
        let is_kind = |kind: &Value| kind == &*object.kind || kind.is_null() && !place.is_empty();
        // Objects with generateName have no name.
        let is_named = |name: &Value| name.is_null() || name == &*object.name;
        found.is_some_and(|found| is_kind(&found["kind"]) && is_named(&found["metadata"]["name"]))
    }

    /// Applies a fix; returns whether the field has its new value.
    fn apply(&mut self, object: &[String], fix: &FieldFix) -> bool {
        if let Some(known) = self.fixed.iter().find(|known| known.field == fix.field) {
            return known.value == fix.value;
        }
        let field = keys(&fix.field).into_iter().map(|key| key.0);
        let path: Vec<&str> = object.iter().map(String::as_str).chain(field).collect();
        let Some(wanted) = with_field(&self.value, &path, &fix.value) else { return false };
        if wanted != self.value {
            // The edited text is parsed again, so that an unusual layout cannot change anything else.
            let edited = self.edited(&path, &fix.value).filter(|text| parse(text).as_ref() == Some(&wanted));
            let Some(text) = edited else { return false };
            (self.text, self.value) = (text, wanted);
        }
        self.fixed.push(fix.clone());
        true
    }

    fn edited(&self, path: &[&str], field: &Value) -> Option<String> {
        let text = DocumentText { text: &self.text, is_json: self.is_json };
        let lines = FieldLines::parse(self.text.as_bytes())?;
        let Edit { place, text: mut new } = edit(&text, lines.root()?, path, field)?;
        if self.text.contains("\r\n") {
            new = new.replace('\n', "\r\n");
        }
        let edited = format!("{}{new}{}", self.text.get(..place.start)?, self.text.get(place.end..)?);
        (!self.is_json || is_json(&edited)).then_some(edited)
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

fn parse(text: &str) -> Option<Value> {
    let text = if text.ends_with('\n') { Cow::Borrowed(text) } else { format!("{text}\n").into() };
    Some(yaml::first(&text, YamlDialect::Kubectl).ok()??.root.json()).filter(|value| !value.is_null())
}

/// Returns a value with a field set; `None` if its parent cannot have such a field.
fn with_field(value: &Value, path: &[&str], field: &Value) -> Option<Value> {
    let Some((key, rest)) = path.split_first() else { return Some(field.clone()) };
    match value {
        Value::Array(items) => {
            let index: usize = key.parse().ok()?;
            let mut items = items.clone();
            let item = items.get_mut(index)?;
            *item = with_field(item, rest, field)?;
            Some(items.into())
        }
        // A missing list is not created.
        Value::Object(_) | Value::Null if value.is_object() || key.parse::<usize>().is_err() => {
            let mut members = value.as_object().cloned().unwrap_or_default();
            if field.is_null() && (rest.is_empty() || !members.contains_key(*key)) {
                members.remove(*key);
            } else {
                let member = with_field(members.get(*key).unwrap_or(&Value::Null), rest, field)?;
                members.insert((*key).to_owned(), member);
            }
            Some(members.into())
        }
        _ => None,
    }
}

/// The text of a document; offsets are in bytes.
struct DocumentText<'t> {
    text: &'t str,
    /// It is JSON, and must remain JSON.
    is_json: bool,
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
struct Edit {
    place: Range<usize>,
    text: String,
}

/// Returns the edit that sets a field; `None` if it cannot be set in this text.
fn edit(text: &DocumentText<'_>, root: &LocatedNode, path: &[&str], field: &Value) -> Option<Edit> {
    let (mut node, mut above) = (root, None);
    for (depth, key) in path.iter().enumerate() {
        let (is_last, rest) = (depth + 1 == path.len(), &path[depth + 1..]);
        match node.child(key) {
            Some(child) if is_last && field.is_null() => return remove(text, node, child, above),
            Some(child) if is_last || child.node.children.is_empty() => {
                return Some(replace(text, node, child, &nested(rest, field)));
            }
            Some(child) => (node, above) = (&child.node, Some((node, child))),
            None => return add(text, node, key, &nested(rest, field)),
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
    let is_collection = value.as_object().is_some_and(|members| !members.is_empty());
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
    // After the line of the last value, with its trailing comment.
    let at = if text.is_line_end(end) { end } else { next_line(text, end) };
    let line = format!("{}{}:{}\n", " ".repeat(column), flow(&key.into()), block(value, column + INDENT));
    let is_own_line = at == 0 || text.is_line_end(at);
    Some(Edit { place: at..at, text: if is_own_line { line } else { format!("\n{}", line.trim_end()) } })
}

/// Returns the edit that removes a key; the last key of a mapping leaves `{}`.
fn remove(
    text: &DocumentText<'_>,
    node: &LocatedNode,
    child: &LocatedChild,
    above: Option<(&LocatedNode, &LocatedChild)>,
) -> Option<Edit> {
    let position = node.children.iter().position(|other| std::ptr::eq(other, child))?;
    if node.children.len() == 1 {
        let (parent, own) = above?;
        return Some(replace(text, parent, own, &Value::Object(Map::new())));
    }
    let (begin, end) = (child.key_place.start, child.end());
    let line = begin.saturating_sub(child.column);
    let in_block_mapping = node.form.is_block() && node.form.is_mapping();
    let place = if in_block_mapping
        && text.text.get(line..begin).is_some_and(|indent| indent.bytes().all(|byte| byte == b' '))
    {
        // A block scalar includes its last line break.
        line..if text.is_line_end(end) { end } else { next_line(text, end) }
    } else if let Some(next) = node.children.get(position + 1) {
        begin..next.key_place.start
    } else {
        node.children[position.checked_sub(1)?].node.place.end..end
    };
    Some(Edit { place, text: String::new() })
}

/// Returns the offset of the next line, or the end of the text.
fn next_line(text: &DocumentText<'_>, from: usize) -> usize {
    text.find(from, b'\n').map_or(text.text.len(), |at| at + 1)
}

/// Writes the value after a colon: a mapping in block style, indented to a column, other values in one line.
fn block(value: &Value, column: usize) -> String {
    match value {
        Value::Object(members) if !members.is_empty() => members.iter().fold(String::new(), |lines, (key, value)| {
            format!("{lines}\n{}{}:{}", " ".repeat(column), flow(&key.as_str().into()), block(value, column + INDENT))
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEXT: &str = "\
# The shop.
apiVersion: v1
kind: Pod
metadata: {name: shop}  # kept
spec:
  hostPID: true
  # Only one.
  containers:
    - name: a   # the first
      image: a:1
      securityContext:
        privileged: true # why?
    - {name: b, image: 'b:2'}
    - name: c
      securityContext: {}

---
apiVersion: v1
kind: List
items:
- kind: Service
  spec: {type: NodePort}
- kind: Service
  spec:
    type: NodePort
";

    fn fixed(text: &str, objects: BTreeMap<usize, FixedObject>) -> (String, usize) {
        ManifestText::new(text).fixed(objects)
    }

    fn object<const N: usize>(kind: &str, name: &str, fixes: [(&str, Value); N]) -> FixedObject {
        let fixes = fixes.map(|(field, value)| FieldFix { field: field.to_owned(), value }).into();
        let object = ObjectRef { kind: kind.to_owned(), name: name.into(), ..ObjectRef::default() };
        FixedObject { object: Arc::new(object), fixes }
    }

    #[test]
    fn fields_get_values_and_everything_else_stays() {
        let pod = object(
            "Pod",
            "shop",
            [
                ("spec.hostPID", Value::Null),
                ("spec.containers[0].securityContext.privileged", json!(false)),
                ("spec.containers[0].securityContext.capabilities.drop", json!(["ALL"])),
                ("spec.containers[1].securityContext.runAsNonRoot", json!(true)),
                ("spec.containers[2].securityContext.runAsNonRoot", json!(true)),
                ("spec.containers[2].securityContext.seccompProfile", json!({"type": "RuntimeDefault"})),
            ],
        );
        let service = |line| (line, object("Service", "", [("spec.type", json!("ClusterIP"))]));
        let (text, applied) = fixed(TEXT, BTreeMap::from([(2, pod), service(21), service(23)]));
        insta::assert_snapshot!(text);
        assert_eq!(applied, 8);
        let (again, applied) =
            fixed(&text, BTreeMap::from([(2, object("Pod", "shop", [("spec.containers[0].image", json!("a:1"))]))]));
        assert_eq!((again, applied), (text, 1));
    }

    #[test]
    fn unicode_byte_order_marks_and_json_are_preserved() {
        for (old, new) in [
            ("# Grüße\nkind: Pod\nd: {é: ü, x: 1} # Ö\ny: 2\n", "# Grüße\nkind: Pod\nd: {é: ü, x: 3} # Ö\ny: 2\n"),
            ("\u{feff}kind: Pod\nd:\n  x: 1\n", "\u{feff}kind: Pod\nd:\n  x: 3\n"),
            ("{\"kind\":\"Pod\",\"d\":{}}", "{\"kind\":\"Pod\",\"d\":{\"x\":3}}"),
            ("{\"kind\":\"Pod\"}", "{\"kind\":\"Pod\", \"d\": {\"x\":3}}"),
        ] {
            let line = if old.starts_with('#') { 2 } else { 1 };
            let fixes = BTreeMap::from([(line, object("Pod", "", [("d.x", json!(3))]))]);
            assert_eq!(fixed(old, fixes), (new.to_owned(), 1));
        }
    }

    #[test]
    fn text_that_cannot_be_fixed_is_unchanged() {
        for (line, name, field) in [
            (1, "shop", "spec.hostPID"),
            (2, "shop", "spec.containers[3].image"),
            (2, "shop", "spec.volumes[0].name"),
            (2, "shop", "kind.a"),
            (2, "another", "spec.hostPID"),
        ] {
            let fixes = BTreeMap::from([(line, object("Pod", name, [(field, json!("x"))]))]);
            assert_eq!(fixed(TEXT, fixes), (TEXT.to_owned(), 0), "{line} {name} {field}");
        }
        let twice = object("Pod", "", [("a", json!("A")), ("a", json!("B"))]);
        assert_eq!(fixed("kind: Pod\n", BTreeMap::from([(1, twice)])), ("kind: Pod\na: A\n".to_owned(), 1));
        for odd in ["{{ .Values.a }}", "a: [", "\t", "", "kind: Pod\na: &a {}\nb: *a\n"] {
            let fixes = BTreeMap::from([(1, object("Pod", "", [("a.b", json!(1))]))]);
            assert_eq!(fixed(odd, fixes), (odd.to_owned(), 0));
        }
    }
}
