//! The full YAML parser, compatible with kubectl: composes the events of libyaml, of which Go's parser is a port too,
//! as go.yaml.in/yaml/v2 and sigs.k8s.io/yaml do. Of two equal keys the last one wins, and merge keys are applied in
//! place.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    panic::catch_unwind,
};

use libyaml_safer::{Event, EventData, Mark, Parser};
use serde_json::{Map, Value};

use super::{block::Converted, duplicates::NAMED, scalar::YamlScalar};

/// The depth limit of the JSON parser.
const DEEPEST: usize = 127;
/// The most bytes of text that aliases may expand to.
const ALIASED_BYTES: usize = 64 * 1024 * 1024;

/// Why a document is refused.
#[derive(Debug)]
pub(super) struct Refusal {
    /// From 1.
    pub(super) line: usize,
    /// In characters, from 1.
    pub(super) column: usize,
    pub(super) why: String,
}

impl Refusal {
    fn new(mark: Mark, why: impl Into<String>) -> Self {
        let from_one = |number: u64| usize::try_from(number).unwrap_or(usize::MAX).saturating_add(1);
        Self { line: from_one(mark.line), column: from_one(mark.column), why: why.into() }
    }
}

/// A parsed document.
#[derive(Debug)]
pub(super) struct YamlDocument {
    pub(super) converted: Converted,
    /// Keys that occur again in their mapping, with their line in the document, from 0.
    pub(super) duplicates: Vec<(usize, String)>,
}

/// Reads the first document of a text that ends with a line break; `None` if there is none, or it is null.
///
/// # Errors
/// When it is not YAML, expands to more than Go's parser allows for aliases, or is deeper than JSON may be.
pub(super) fn read(text: &str) -> Result<Option<YamlDocument>, Refusal> {
    // The parser panics on some input: a comma after a tag.
    catch_unwind(|| read_first(text))
        .unwrap_or_else(|_| Err(Refusal { line: 1, column: 1, why: "the YAML parser failed on this document".into() }))
}

fn read_first(text: &str) -> Result<Option<YamlDocument>, Refusal> {
    let mut rest = text.as_bytes();
    let mut parser = Parser::new();
    parser.set_input_string(&mut rest);
    let mut composer = Composer { parser, text, nodes: Vec::new(), anchors: HashMap::new() };
    let Some(root) = composer.document()? else { return Ok(None) };
    let nodes = &composer.nodes;
    let mut decoder =
        Decoder { nodes, open: Vec::new(), decoded: 1, aliased: 0, bytes: 0, duplicates: BTreeMap::new() };
    let value = decoder.value(root, 0)?;
    let mut converted = Converted::default();
    write(nodes, root, &value, &mut converted);
    let duplicates = decoder.duplicates.into_iter().map(|(id, key)| (line_of(&nodes[id]), key)).collect();
    Ok((!value.is_null()).then_some(YamlDocument { converted, duplicates }))
}

/// Writes a value as JSON, with the offset and line of each item of a list.
fn write(nodes: &[ComposedNode], id: NodeId, value: &Value, to: &mut Converted) {
    let content = match &nodes[id].content {
        NodeContent::Alias(meant) => &nodes[*meant].content,
        content => content,
    };
    match (content, value) {
        (NodeContent::Sequence(items), Value::Array(values)) => {
            to.json.push('[');
            for (index, (item, value)) in items.iter().zip(values).enumerate() {
                if index > 0 {
                    to.json.push(',');
                }
                to.items.push((to.json.len(), line_of(&nodes[*item])));
                write(nodes, *item, value, to);
            }
            to.json.push(']');
        }
        (NodeContent::Mapping(pairs), Value::Object(fields)) => {
            let is_items =
                |key: NodeId| matches!(&nodes[key].content, NodeContent::Scalar { text, .. } if text == ITEMS);
            let items = pairs.iter().rfind(|(key, _)| is_items(*key)).map(|(_, items)| *items);
            to.json.push('{');
            for (index, (key, value)) in fields.iter().enumerate() {
                if index > 0 {
                    to.json.push(',');
                }
                // Keys and values read from text can always be written as JSON.
                to.json += &Value::from(key.as_str()).to_string();
                to.json.push(':');
                match items.filter(|_| key == ITEMS) {
                    Some(items) => write(nodes, items, value, to),
                    None => to.json += &value.to_string(),
                }
            }
            to.json.push('}');
        }
        _ => to.json += &value.to_string(),
    }
}

/// The field that contains the items of a list.
const ITEMS: &str = "items";

fn line_of(node: &ComposedNode) -> usize {
    usize::try_from(node.mark.line).unwrap_or(usize::MAX)
}

/// Index of a node.
type NodeId = usize;

struct ComposedNode {
    mark: Mark,
    content: NodeContent,
}

enum NodeContent {
    Scalar { text: String, tag: Option<String>, plain: bool },
    Sequence(Vec<NodeId>),
    Mapping(Vec<(NodeId, NodeId)>),
    Alias(NodeId),
}

/// Composes nodes from events.
struct Composer<'t> {
    parser: Parser<&'t mut &'t [u8]>,
    text: &'t str,
    nodes: Vec<ComposedNode>,
    anchors: HashMap<String, NodeId>,
}

impl Composer<'_> {
    fn document(&mut self) -> Result<Option<NodeId>, Refusal> {
        loop {
            match self.event()?.data {
                EventData::StreamStart { .. } => {}
                EventData::DocumentStart { .. } => break,
                _ => return Ok(None),
            }
        }
        let first = self.event()?;
        let root = self.node(first, 1)?;
        // The rest of the document may be invalid.
        self.event()?;
        Ok(Some(root))
    }

    fn event(&mut self) -> Result<Event, Refusal> {
        self.parser.parse().map_err(|error| {
            let context = error.context().map_or_else(String::new, |context| format!("{context}: "));
            let why = format!("{context}{}", error.problem());
            error.problem_mark().map_or_else(|| odd_character(self.text, &why), |mark| Refusal::new(mark, &*why))
        })
    }

    fn add(&mut self, mark: Mark, anchor: Option<String>, content: NodeContent) -> NodeId {
        let id = self.nodes.len();
        self.nodes.push(ComposedNode { mark, content });
        if let Some(anchor) = anchor {
            self.anchors.insert(anchor, id);
        }
        id
    }

    fn node(&mut self, event: Event, depth: usize) -> Result<NodeId, Refusal> {
        let mark = event.start_mark;
        if depth > DEEPEST {
            return Err(Refusal::new(mark, too_deep()));
        }
        match event.data {
            EventData::Scalar { anchor, tag, value: text, plain_implicit: plain, .. } => {
                Ok(self.add(mark, anchor, NodeContent::Scalar { text, tag, plain }))
            }
            EventData::Alias { anchor } => match self.anchors.get(&anchor) {
                Some(meant) => Ok(self.add(mark, None, NodeContent::Alias(*meant))),
                // Its name may be a secret that lacks quotes.
                None => Err(Refusal::new(mark, "an alias of an unknown anchor")),
            },
            EventData::SequenceStart { anchor, .. } => {
                // An alias inside refers to the collection itself, which is refused when it is decoded.
                let id = self.add(mark, anchor, NodeContent::Sequence(Vec::new()));
                let mut items = Vec::new();
                while let Some(event) = self.inner()? {
                    items.push(self.node(event, depth + 1)?);
                }
                self.nodes[id].content = NodeContent::Sequence(items);
                Ok(id)
            }
            EventData::MappingStart { anchor, .. } => {
                let id = self.add(mark, anchor, NodeContent::Mapping(Vec::new()));
                let mut pairs = Vec::new();
                while let Some(event) = self.inner()? {
                    let key = self.node(event, depth + 1)?;
                    let event = self.event()?;
                    pairs.push((key, self.node(event, depth + 1)?));
                }
                self.nodes[id].content = NodeContent::Mapping(pairs);
                Ok(id)
            }
            _ => Err(Refusal::new(mark, "did not find a value")),
        }
    }

    /// Returns the event that starts the next node of a collection; `None` at its end.
    fn inner(&mut self) -> Result<Option<Event>, Refusal> {
        let event = self.event()?;
        Ok((!matches!(event.data, EventData::SequenceEnd | EventData::MappingEnd)).then_some(event))
    }
}

/// Refuses a text for an invalid character, the only problem for which the parser does not return a position.
fn odd_character(text: &str, why: &str) -> Refusal {
    let odd = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{85}');
    let before = &text[..text.find(odd).unwrap_or(0)];
    let line = before.rfind('\n').map_or(0, |at| at + 1);
    let column = before[line..].chars().count() + 1;
    Refusal { line: before.matches('\n').count() + 1, column, why: why.to_owned() }
}

fn too_deep() -> String {
    format!("nested deeper than {DEEPEST} levels")
}

/// Decodes nodes into values.
struct Decoder<'n> {
    nodes: &'n [ComposedNode],
    /// Aliases that are being resolved.
    open: Vec<NodeId>,
    /// Nodes decoded, and how many of them through aliases.
    decoded: usize,
    aliased: usize,
    /// Bytes of text decoded through aliases.
    bytes: usize,
    /// The first keys that occur again in their mapping, by node: an anchor's value is decoded several times.
    duplicates: BTreeMap<NodeId, String>,
}

impl Decoder<'_> {
    /// Counts a node as Go's parser does, which limits the expansion of aliases.
    fn count(&mut self, id: NodeId) -> Result<&ComposedNode, Refusal> {
        let node = &self.nodes[id];
        self.decoded += 1;
        if !self.open.is_empty() {
            self.aliased += 1;
            if let NodeContent::Scalar { text, .. } = &node.content {
                self.bytes += text.len();
            }
        }
        let excessive = self.aliased > 100 && self.decoded > 1000 && self.aliased > most_aliased(self.decoded);
        if excessive || self.bytes > ALIASED_BYTES {
            let at = self.open.first().map_or(node.mark, |alias| self.nodes[*alias].mark);
            return Err(Refusal::new(at, "its anchors and aliases expand to too many values"));
        }
        Ok(node)
    }

    fn value(&mut self, id: NodeId, depth: usize) -> Result<Value, Refusal> {
        let nodes = self.nodes;
        self.count(id)?;
        let ComposedNode { mark, content } = &nodes[id];
        if depth >= DEEPEST && !matches!(content, NodeContent::Scalar { .. }) {
            return Err(Refusal::new(*mark, too_deep()));
        }
        match content {
            NodeContent::Scalar { .. } => {
                let scalar = scalar(&nodes[id])?;
                scalar.into_json().ok_or_else(|| Refusal::new(*mark, "JSON cannot represent this number"))
            }
            NodeContent::Sequence(items) => items.iter().map(|item| self.value(*item, depth + 1)).collect(),
            NodeContent::Mapping(pairs) => {
                let mut into = Map::new();
                self.pairs(pairs, &mut into, depth)?;
                Ok(Value::Object(into))
            }
            NodeContent::Alias(meant) => self.follow(id, |decoder| decoder.value(*meant, depth)),
        }
    }

    fn follow<T>(&mut self, alias: NodeId, read: impl FnOnce(&mut Self) -> Result<T, Refusal>) -> Result<T, Refusal> {
        if self.open.contains(&alias) {
            return Err(Refusal::new(self.nodes[alias].mark, "the value of an anchor contains itself"));
        }
        self.open.push(alias);
        let read = read(self);
        self.open.pop();
        read
    }

    fn pairs(
        &mut self,
        pairs: &[(NodeId, NodeId)],
        into: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), Refusal> {
        // Merged keys are not included: the mapping may replace them.
        let mut own = HashSet::new();
        for (id, value) in pairs {
            if is_merge(&self.nodes[*id]) {
                self.merge(*value, into, depth, true)?;
                continue;
            }
            let key = self.key(*id)?;
            let value = self.value(*value, depth + 1)?;
            if !own.insert(key.clone()) && self.duplicates.len() < NAMED {
                self.duplicates.insert(*id, key.clone());
            }
            into.insert(key, value);
        }
        Ok(())
    }

    fn key(&mut self, id: NodeId) -> Result<String, Refusal> {
        let nodes = self.nodes;
        self.count(id)?;
        let refused = || Refusal::new(nodes[id].mark, "a key must be a string, number or boolean");
        match &nodes[id].content {
            NodeContent::Scalar { .. } => scalar(&nodes[id])?.into_key().ok_or_else(refused),
            NodeContent::Alias(meant) => self.follow(id, |decoder| decoder.key(*meant)),
            NodeContent::Sequence(_) | NodeContent::Mapping(_) => Err(refused()),
        }
    }

    /// Adds the pairs of a mapping, or of a sequence of mappings, in which earlier ones win.
    fn merge(&mut self, id: NodeId, into: &mut Map<String, Value>, depth: usize, many: bool) -> Result<(), Refusal> {
        let nodes = self.nodes;
        match &nodes[id].content {
            NodeContent::Mapping(pairs) if depth < DEEPEST => {
                self.count(id)?;
                self.pairs(pairs, into, depth)
            }
            NodeContent::Mapping(_) => Err(Refusal::new(nodes[id].mark, too_deep())),
            NodeContent::Alias(meant) if matches!(nodes[*meant].content, NodeContent::Mapping(_)) => {
                self.count(id)?;
                self.follow(id, |decoder| decoder.merge(*meant, into, depth + 1, false))
            }
            NodeContent::Sequence(items) if many => {
                items.iter().rev().try_for_each(|item| self.merge(*item, into, depth, false))
            }
            _ => Err(Refusal::new(nodes[id].mark, "only mappings can be merged")),
        }
    }
}

/// Returns how many of the decoded nodes may come from aliases: 99 % up to 400,000, decreasing to 10 % at 4,000,000.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small numbers"
)]
fn most_aliased(decoded: usize) -> usize {
    let (few, many) = (400_000.0, 4_000_000.0);
    let nodes = decoded as f64;
    (nodes * (0.99 - 0.89 * ((nodes - few) / (many - few)).clamp(0.0, 1.0))) as usize
}

fn scalar(node: &ComposedNode) -> Result<YamlScalar<'_>, Refusal> {
    let NodeContent::Scalar { text, tag, plain } = &node.content else { return Ok(YamlScalar::Null) };
    if tag.is_none() && !plain {
        return Ok(YamlScalar::Text(text.into()));
    }
    YamlScalar::read(text, tag.as_deref()).map_err(|why| Refusal::new(node.mark, why))
}

fn is_merge(node: &ComposedNode) -> bool {
    let merge = |tag: &Option<String>| tag.as_deref() == Some("tag:yaml.org,2002:merge");
    matches!(&node.content, NodeContent::Scalar { text, tag, plain } if text == "<<" && (*plain || merge(tag)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn value(text: &str) -> Value {
        let read = read(text).unwrap();
        read.map_or(Value::Null, |document| serde_json::from_str(&document.converted.json).unwrap())
    }

    #[test]
    fn duplicate_keys_are_reported_with_their_line_unless_they_replace_merged_ones() {
        for (text, duplicates) in [
            ("a: 1\nb: 2\na: 3\n", vec![(2, "a")]),
            ("a:\n  b: 1\n  \"b\": 2\nc: {d: 1, d: 2}\n", vec![(2, "b"), (3, "d")]),
            ("- a: 1\n  a: 1\n  a: 1\n- a: 1\n", vec![(1, "a"), (2, "a")]),
            ("1: a\n\"1\": b\n", vec![(1, "1")]),
            ("x: &x {a: 1, a: 2}\ny: *x\nz: *x\n", vec![(0, "a")]),
            ("x: &x {a: 1}\ny:\n  <<: *x\n  a: 2\nz:\n  a: 2\n  <<: *x\n", vec![]),
            ("x: &x {a: 1}\ny:\n  <<: *x\n  a: 2\n  a: 3\n", vec![(4, "a")]),
            ("a: {b: 1}\nb: {a: 1}\n", vec![]),
        ] {
            let document = read(text).unwrap().unwrap();
            let found: Vec<_> = document.duplicates.iter().map(|(line, key)| (*line, key.as_str())).collect();
            assert_eq!(found, duplicates, "{text}");
        }
        let many = read(&"a: 1\n".repeat(100_000)).unwrap().unwrap();
        assert_eq!(many.duplicates.len(), NAMED);
    }

    #[test]
    fn differences_between_yaml_parsers_are_resolved_as_in_go() {
        for (text, value) in [
            ("a: 26437e834904\nb: 91250e867068\n", json!({"a": "26437e834904", "b": "91250e867068"})),
            (
                "{a: 0644, b: on, c: \"on\", d: 1.0, e: 1_000, f: 08}\n",
                json!({"a": 420, "b": true, "c": "on", "d": 1, "e": 1000, "f": 8}),
            ),
            ("a: 1\na: 2\n", json!({"a": 2})),
            ("a: 1\n<<: {a: 2, b: 3}\nb: 4\n", json!({"a": 2, "b": 4})),
            ("1: a\ntrue: b\n1e7: c\n", json!({"1": "a", "true": "b", "1e+07": "c"})),
            ("a: !!binary aGk=\nb: !mine 1\nc: ! 1\n", json!({"a": "hi", "b": "1", "c": "1"})),
            ("k:\n  a: \"one\n  two\"\n", json!({"k": {"a": "one two"}})),
            ("", Value::Null),
        ] {
            assert_eq!(self::value(text), value, "{text}");
        }
        for (text, at, why) in [
            ("a: \"one\n", (2, 1), "while scanning a quoted scalar: found unexpected end of stream"),
            ("a: b\n~: c\n", (2, 1), "a key must be a string, number or boolean"),
            ("a: .nan\n", (1, 4), "JSON cannot represent this number"),
            ("a: *b\n", (1, 4), "an alias of an unknown anchor"),
            ("a: &a [*a]\n", (1, 8), "the value of an anchor contains itself"),
            ("a: b\nc: \u{1}\n", (2, 4), "control characters are not allowed"),
            ("a: [!b, c]\n", (1, 1), "the YAML parser failed on this document"),
        ] {
            let refused = read(text).unwrap_err();
            assert_eq!(((refused.line, refused.column), &*refused.why), (at, why), "{text}");
        }
    }

    #[test]
    fn the_expansion_of_aliases_is_bounded() {
        let laughs = ('b'..='h').fold("a: &a [1,1,1,1,1,1,1,1,1]\n".to_owned(), |text, anchor| {
            let alias = char::from_u32(u32::from(anchor) - 1).unwrap();
            text + &format!("{anchor}: &{anchor} [{}]\n", format!("*{alias} ,").repeat(9))
        });
        let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(1_000_000), "*a ,".repeat(90));
        for text in [laughs, long] {
            assert_eq!(read(&text).unwrap_err().why, "its anchors and aliases expand to too many values");
        }
        assert!(read(&format!("a: &a {{b: c}}\nd: [{}]\n", "*a ,".repeat(300))).is_ok());
    }
}
