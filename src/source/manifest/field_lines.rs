//! The lines at which fields of objects are in a file of manifests.
//!
//! Only files with results about a field are read again for that, so that reading all others costs nothing more.

use std::{fs, path::Path};

use libyaml_safer::{Event, EventData, Parser};

/// Larger files are not read again.
const LARGEST: u64 = 16 * 1024 * 1024;
/// Deeper values have no lines of their own.
const DEEPEST: usize = 64;

/// A file with values that are deeper than this is not read.
const TOO_DEEP: usize = 512;

/// The places of all values of a file.
#[derive(Debug)]
pub struct FieldLines {
    documents: Vec<Node>,
}

/// A value, and where it begins.
#[derive(Debug)]
struct Node {
    /// From 1.
    line: u32,
    is_mapping: bool,
    /// Those of a mapping, each with its key and the line of that; the keys of a list are the indices.
    children: Vec<(String, u32, Self)>,
}

/// One part of the name of a field.
#[derive(Debug, PartialEq, Eq)]
struct FieldKey<'f>(&'f str);

impl FieldLines {
    /// Reads a file; `None` if it cannot be read whole as YAML or JSON, or is too large.
    pub fn read(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok().filter(|metadata| metadata.is_file() && metadata.len() <= LARGEST)?;
        let text = fs::read(path).ok().filter(|text| text.len() as u64 <= metadata.len().max(1))?;
        Self::parse(&text)
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let mut rest = text;
        let mut parser = Parser::new();
        parser.set_input_string(&mut rest);
        let mut documents = Vec::new();
        loop {
            let event = parser.parse().ok()?;
            match event.data {
                EventData::StreamEnd => return Some(Self { documents }),
                EventData::StreamStart { .. } | EventData::DocumentStart { .. } | EventData::DocumentEnd { .. } => {}
                _ => documents.push(node(&mut parser, &event, 0)?),
            }
        }
    }

    /// Returns the line of a field of the object that begins at a line, or of what is nearest above it; `None` if no object
    /// begins there. Fields are written as in `spec.containers[0].image`, other keys as in `labels["example.com/a"]`.
    pub fn line(&self, object: usize, field: &str) -> Option<usize> {
        let object = u32::try_from(object).ok()?;
        let mut node = self.documents.iter().find_map(|document| document.at(object))?;
        let mut line = node.line;
        for FieldKey(key) in keys(field) {
            let Some((_, place, value)) = node.children.iter().find(|(own, ..)| own == key) else { break };
            (line, node) = (*place, value);
        }
        usize::try_from(line).ok()
    }
}

impl Node {
    /// Returns the outermost mapping that begins at a line.
    fn at(&self, line: u32) -> Option<&Self> {
        if self.line == line && self.is_mapping {
            return Some(self);
        }
        self.children.iter().find_map(|(.., child)| child.at(line))
    }
}

/// Reads the value that begins with an event; `None` if the text is not YAML.
fn node(parser: &mut Parser<&mut &[u8]>, event: &Event, depth: usize) -> Option<Node> {
    let line = u32::try_from(event.start_mark.line).ok()?.saturating_add(1);
    if depth > TOO_DEEP {
        return None;
    }
    let is_mapping = matches!(event.data, EventData::MappingStart { .. });
    let mut children = Vec::new();
    let is_kept = depth < DEEPEST;
    match event.data {
        EventData::SequenceStart { .. } => loop {
            let item = parser.parse().ok()?;
            if matches!(item.data, EventData::SequenceEnd) {
                break;
            }
            let child = node(parser, &item, depth + 1)?;
            if is_kept {
                children.push((children.len().to_string(), child.line, child));
            }
        },
        EventData::MappingStart { .. } => loop {
            let key = parser.parse().ok()?;
            if matches!(key.data, EventData::MappingEnd) {
                break;
            }
            let place = u32::try_from(key.start_mark.line).ok()?.saturating_add(1);
            let name = match &key.data {
                EventData::Scalar { value, .. } => value.clone(),
                _ => String::new(),
            };
            node(parser, &key, depth + 1)?;
            let value = parser.parse().ok()?;
            let child = node(parser, &value, depth + 1)?;
            if is_kept {
                children.push((name, place, child));
            }
        },
        _ => {}
    }
    Some(Node { line, is_mapping, children })
}

/// Splits the name of a field.
fn keys(field: &str) -> Vec<FieldKey<'_>> {
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
    fn fields_have_the_lines_of_their_keys_or_of_what_is_nearest() {
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
    fn what_is_no_yaml_has_no_lines_and_depth_is_bounded() {
        assert!(FieldLines::parse(b"a: [").is_none() && FieldLines::parse(b"a: b: c").is_none());
        let deep = format!("a: {}1{}", "[".repeat(200), "]".repeat(200));
        assert_eq!(FieldLines::parse(deep.as_bytes()).unwrap().line(1, "a[0][0]"), Some(1));
        let deeper = format!("a: {}", "[".repeat(100_000));
        assert!(FieldLines::parse(deeper.as_bytes()).is_none());
        for odd in ["[", "[\"", "a..b", ".", "a[", "a[\"b"] {
            assert!(!keys(odd).is_empty());
        }
    }
}
