//! Finds the lines of the fields of objects in a file of manifests.
//!
//! Only files with results about a field are read again for that, so that other files cost nothing extra.

use std::{borrow::Cow, fs, ops::Range, panic::catch_unwind, path::Path};

use libyaml_safer::{Event, EventData, MappingStyle, Parser, SequenceStyle};

/// Larger files are not read again.
const LARGEST: u64 = 16 * 1024 * 1024;
/// Deeper values have no lines of their own.
const DEEPEST: usize = 64;

/// A file with values that are deeper than this is not read.
const TOO_DEEP: usize = 512;

/// The positions of all values of a file.
#[derive(Debug)]
pub struct FieldLines {
    documents: Vec<LocatedDocument>,
}

/// One of the documents of a file.
#[derive(Debug)]
struct LocatedDocument {
    /// The first line of its text, from 1, after the document marker.
    line: usize,
    /// The offset of that line.
    start: usize,
    root: LocatedNode,
}

/// The position of an object in a file.
#[derive(Debug)]
pub(super) struct ObjectPlace<'l> {
    /// The first line of its document, from 1.
    pub(super) line: usize,
    /// The offset of that line.
    pub(super) start: usize,
    /// The keys of the document that lead to it: `items` and `0` in a List.
    pub(super) keys: Vec<&'l str>,
    pub(super) node: &'l LocatedNode,
    /// Whether the document has aliases, so that a value may occur in several objects.
    pub(super) has_aliases: bool,
}

/// A value and its position in the text.
#[derive(Debug)]
pub(super) struct LocatedNode {
    /// From 1.
    line: u32,
    /// In bytes. A block collection ends with its last value.
    pub(super) place: Range<usize>,
    pub(super) form: NodeForm,
    /// Whether it is an alias, or contains one.
    has_aliases: bool,
    /// Values of a mapping or a list.
    pub(super) children: Vec<LocatedChild>,
}

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeForm {
    Scalar,
    /// In brackets or in block style.
    List {
        is_flow: bool,
    },
    Mapping {
        is_flow: bool,
    },
}

impl NodeForm {
    /// Whether it is a collection in block style, without brackets.
    pub(super) fn is_block(self) -> bool {
        matches!(self, Self::List { is_flow: false } | Self::Mapping { is_flow: false })
    }

    pub(super) fn is_mapping(self) -> bool {
        matches!(self, Self::Mapping { .. })
    }
}

/// A value of a mapping or a list.
#[derive(Debug)]
pub(super) struct LocatedChild {
    /// The index as text, in a list.
    pub(super) key: String,
    /// The line of the key, from 1.
    line: u32,
    /// The bytes of the key; of the value, in a list.
    pub(super) key_place: Range<usize>,
    /// The column of the key, in characters.
    pub(super) column: usize,
    pub(super) node: LocatedNode,
}

/// One part of the name of a field.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FieldKey<'f>(pub(super) &'f str);

impl FieldLines {
    /// Reads a file; `None` if it is too large or cannot be read completely as YAML or JSON.
    pub fn read(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok().filter(|metadata| metadata.is_file() && metadata.len() <= LARGEST)?;
        let text = fs::read(path).ok().filter(|text| text.len() as u64 <= metadata.len().max(1))?;
        Self::parse(&text)
    }

    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        // The parser panics where a text ends within a block scalar, and on a comma after a tag.
        let ended = if text.ends_with(b"\n") { Cow::from(text) } else { [text, b"\n"].concat().into() };
        catch_unwind(|| Self::parse_ended(&ended)).ok()?
    }

    /// Parses a text that ends with a line break.
    fn parse_ended(text: &[u8]) -> Option<Self> {
        let mut rest = text;
        let mut parser = Parser::new();
        parser.set_input_string(&mut rest);
        let (mut documents, mut line, mut start) = (Vec::new(), 1, 0);
        loop {
            let event = parser.parse().ok()?;
            match event.data {
                EventData::StreamEnd => return Some(Self { documents }),
                EventData::DocumentStart { implicit, .. } => {
                    line = number(event.start_mark.line) + 1 + usize::from(!implicit);
                    let (before, after) = text.split_at_checked(number(event.start_mark.index))?;
                    let next = || memchr::memchr(b'\n', after).map_or(text.len(), |end| before.len() + end + 1);
                    let own = || memchr::memrchr(b'\n', before).map_or(0, |end| end + 1);
                    start = if implicit { own() } else { next() };
                }
                EventData::StreamStart { .. } | EventData::DocumentEnd { .. } => {}
                _ => documents.push(LocatedDocument { line, start, root: node(&mut parser, &event, 0)? }),
            }
        }
    }

    /// Returns the root of the only document; `None` if there are none or several.
    pub(super) fn root(&self) -> Option<&LocatedNode> {
        self.documents.first().map(|document| &document.root).filter(|_| self.documents.len() == 1)
    }

    /// Returns the position of the object that starts at a line, if there is one.
    pub(super) fn object(&self, line: usize) -> Option<ObjectPlace<'_>> {
        let wanted = u32::try_from(line).ok()?;
        let first = self.documents.partition_point(|document| document.root.line < wanted).saturating_sub(1);
        self.documents[first..].iter().find_map(|LocatedDocument { line, start, root }| {
            let mut keys = Vec::new();
            let node = root.at(wanted, &mut keys)?;
            Some(ObjectPlace { line: *line, start: *start, keys, node, has_aliases: root.has_aliases })
        })
    }

    /// Returns the line of a field of the object that starts at a line, or of the nearest field above it; `None` if no
    /// object starts there. Fields are written as in `spec.containers[0].image`, other keys as in
    /// `labels["example.com/a"]`.
    pub fn line(&self, object: usize, field: &str) -> Option<usize> {
        let mut node = self.object(object)?.node;
        let mut line = node.line;
        for FieldKey(key) in keys(field) {
            let Some(child) = node.child(key) else { break };
            (line, node) = (child.line, &child.node);
        }
        usize::try_from(line).ok()
    }
}

impl LocatedNode {
    /// Returns the outermost mapping that starts at a line, and adds the keys that lead to it.
    fn at<'n>(&'n self, line: u32, keys: &mut Vec<&'n str>) -> Option<&'n Self> {
        if self.line == line && self.form.is_mapping() {
            return Some(self);
        }
        // Children before the last one that starts above the line also end above it.
        let first = self.children.partition_point(|child| child.line < line).saturating_sub(1);
        self.children[first..].iter().take_while(|child| child.line <= line).find_map(|child| {
            keys.push(&child.key);
            let found = child.node.at(line, keys);
            if found.is_none() {
                keys.pop();
            }
            found
        })
    }

    /// Returns the child with a key.
    pub(super) fn child(&self, key: &str) -> Option<&LocatedChild> {
        self.children.iter().find(|child| child.key == key)
    }
}

impl LocatedChild {
    /// Returns its end: that of its value, or of its key if the value is empty.
    pub(super) fn end(&self) -> usize {
        self.node.place.end.max(self.key_place.end)
    }
}

fn number(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Reads the value that starts with an event; `None` if the text is not YAML.
fn node(parser: &mut Parser<&mut &[u8]>, event: &Event, depth: usize) -> Option<LocatedNode> {
    let line = u32::try_from(event.start_mark.line).ok()?.saturating_add(1);
    if depth > TOO_DEEP {
        return None;
    }
    let mut children = Vec::new();
    let mut has_aliases = matches!(event.data, EventData::Alias { .. });
    let mut place = number(event.start_mark.index)..number(event.end_mark.index);
    let form = match event.data {
        EventData::SequenceStart { style, .. } => {
            loop {
                let item = parser.parse().ok()?;
                if matches!(item.data, EventData::SequenceEnd) {
                    place.end = number(item.end_mark.index);
                    break;
                }
                let key = children.len().to_string();
                children.push(child(parser, key, &item, &item, depth)?);
            }
            NodeForm::List { is_flow: style == SequenceStyle::Flow }
        }
        EventData::MappingStart { style, .. } => {
            loop {
                let key = parser.parse().ok()?;
                if matches!(key.data, EventData::MappingEnd) {
                    place.end = number(key.end_mark.index);
                    break;
                }
                let name = match &key.data {
                    EventData::Scalar { value, .. } => value.clone(),
                    _ => String::new(),
                };
                has_aliases |= node(parser, &key, depth + 1)?.has_aliases;
                let value = parser.parse().ok()?;
                children.push(child(parser, name, &key, &value, depth)?);
            }
            NodeForm::Mapping { is_flow: style == MappingStyle::Flow }
        }
        _ => NodeForm::Scalar,
    };
    if let Some(last) = children.last().filter(|_| form.is_block()) {
        place.end = last.end();
    }
    has_aliases |= children.iter().any(|child| child.node.has_aliases);
    if depth >= DEEPEST {
        children.clear();
    }
    Some(LocatedNode { line, place, form, has_aliases, children })
}

/// Reads the value that starts with an event, and its key.
fn child(
    parser: &mut Parser<&mut &[u8]>,
    name: String,
    key: &Event,
    value: &Event,
    depth: usize,
) -> Option<LocatedChild> {
    let line = u32::try_from(key.start_mark.line).ok()?.saturating_add(1);
    let key_place = number(key.start_mark.index)..number(key.end_mark.index);
    let column = number(key.start_mark.column);
    Some(LocatedChild { key: name, line, key_place, column, node: node(parser, value, depth + 1)? })
}

/// Splits the path of a field, such as `spec.containers[0].image`, into its keys.
pub(crate) fn field_keys(field: &str) -> Vec<&str> {
    keys(field).into_iter().map(|key| key.0).collect()
}

/// Splits the name of a field.
pub(super) fn keys(field: &str) -> Vec<FieldKey<'_>> {
    let (mut keys, mut rest) = (Vec::new(), field);
    while !rest.is_empty() {
        let (key, after) = if let Some(inside) = rest.strip_prefix('[') {
            let end = match inside.strip_prefix('"') {
                Some(quoted) => quoted.find("\"]").map(|end| (&quoted[..end], &quoted[end + 2..])),
                None => inside.split_once(']'),
            };
            end.unwrap_or((inside, ""))
        } else {
            let plain = rest.strip_prefix('.').unwrap_or(rest);
            let end = plain.find(['.', '[']).unwrap_or(plain.len());
            plain.split_at(end)
        };
        keys.push(FieldKey(key));
        rest = after;
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
apiVersion: v1
kind: Pod
metadata:
  labels:
    example.com/team: shop
spec:
  containers:
    - name: a
      image: a:1
    - {name: b,
       image: b:2}
---
# A list.
apiVersion: v1
kind: List
items:
  - kind: Service
    spec: {type: NodePort}
  - kind: Service
    spec:
      type: NodePort
";

    #[test]
    fn fields_have_the_lines_of_their_keys_or_of_the_nearest_parent() {
        let lines = FieldLines::parse(TEXT.as_bytes()).unwrap();
        for (object, field, line) in [
            (1, "spec.containers[0].image", 9),
            (1, "spec.containers[1].image", 11),
            (1, "spec.containers[1]", 10),
            (1, "spec.containers[0].resources.limits", 8),
            (1, "spec.hostPID", 6),
            (1, "status", 1),
            (1, "metadata.labels[\"example.com/team\"]", 5),
            (1, "", 1),
            (17, "spec.type", 18),
            (19, "spec.type", 21),
        ] {
            assert_eq!(lines.line(object, field), Some(line), "{object} {field}");
        }
        assert_eq!(lines.line(2, "spec"), None);
        let json = FieldLines::parse(b"{\n \"kind\": \"Pod\",\n \"spec\": {\n  \"hostPID\": true}}").unwrap();
        assert_eq!(json.line(1, "spec.hostPID"), Some(4));
    }

    #[test]
    fn a_file_may_end_within_a_block_scalar() {
        let lines = FieldLines::parse(b"kind: ConfigMap\ndata:\n  a: |\n    b").unwrap();
        assert_eq!(lines.line(1, "data.a"), Some(3));
    }

    #[test]
    fn invalid_yaml_has_no_lines_and_depth_is_bounded() {
        assert!(FieldLines::parse(b"a: [").is_none() && FieldLines::parse(b"a: b: c").is_none());
        assert!(FieldLines::parse(b"a: [!b, c]").is_none());
        let deep = format!("a: {}1{}", "[".repeat(200), "]".repeat(200));
        assert_eq!(FieldLines::parse(deep.as_bytes()).unwrap().line(1, "a[0][0]"), Some(1));
        let deeper = format!("a: {}", "[".repeat(100_000));
        assert!(FieldLines::parse(deeper.as_bytes()).is_none());
        for odd in ["[", "[\"", "a..b", ".", "a[", "a[\"b"] {
            assert!(!keys(odd).is_empty());
        }
    }
}
