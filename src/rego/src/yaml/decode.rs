//! Decodes composed nodes into values: resolves aliases, merges mappings and limits the expansion, as Go's parsers do.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Number, Value};

use super::{
    compose::{ComposedNode, DEEPEST, NodeContent, NodeId, too_deep},
    error::YamlError,
    node::{YamlContent, YamlField, YamlNode},
    scalar::{YamlDialect, YamlScalar},
};
use crate::position::Position;

/// The most bytes of text that aliases may expand to.
const ALIASED_BYTES: usize = 64 * 1024 * 1024;
/// The most duplicate keys of one document that are found.
pub const MOST_DUPLICATES: usize = 10;

/// A document with the keys that occur again in their mapping, of which the last one counts.
#[derive(Debug)]
pub struct YamlDocument {
    /// The value.
    pub root: YamlNode,
    /// The first [`MOST_DUPLICATES`] of these keys with their positions.
    pub duplicates: Vec<(Position, String)>,
}

impl YamlDocument {
    /// Decodes the document with this root.
    ///
    /// # Errors
    /// When it expands to more than Go's parsers allow for aliases, is deeper than JSON may be, or has a key or a number
    /// that JSON cannot represent.
    pub(super) fn decode(nodes: &[ComposedNode], root: NodeId, dialect: YamlDialect) -> Result<Self, YamlError> {
        let (open, duplicates) = (Vec::new(), BTreeMap::new());
        let mut decoder = Decoder { nodes, dialect, open, decoded: 1, aliased: 0, bytes: 0, duplicates };
        let root = decoder.value(root, 0)?;
        let duplicates = decoder.duplicates.into_iter().map(|(id, key)| (nodes[id].at, key)).collect();
        Ok(Self { root, duplicates })
    }

    /// Returns the value.
    ///
    /// # Errors
    /// When a key occurs again in its mapping.
    pub fn without_duplicates(self) -> Result<YamlNode, YamlError> {
        match self.duplicates.into_iter().next() {
            Some((at, key)) => Err(YamlError::new(at, format!("duplicate mapping key: {key}"))),
            None => Ok(self.root),
        }
    }
}

struct Decoder<'n> {
    nodes: &'n [ComposedNode],
    dialect: YamlDialect,
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

/// The fields of a mapping.
#[derive(Default)]
struct DecodedFields {
    fields: Vec<YamlField>,
    /// The index of each key.
    indexes: HashMap<String, usize>,
}

impl DecodedFields {
    /// Adds a field or replaces the one with the same key; returns its index.
    fn insert(&mut self, field: YamlField) -> usize {
        if let Some(index) = self.indexes.get(&field.key) {
            self.fields[*index] = field;
            return *index;
        }
        let index = self.fields.len();
        self.indexes.insert(field.key.clone(), index);
        self.fields.push(field);
        index
    }
}

impl Decoder<'_> {
    /// Counts a node as Go's parsers do, which limit the expansion of aliases.
    fn count(&mut self, id: NodeId) -> Result<(), YamlError> {
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
            let at = self.open.first().map_or(node.at, |alias| self.nodes[*alias].at);
            return Err(YamlError::excessive(at, "its anchors and aliases expand to too many values"));
        }
        Ok(())
    }

    fn value(&mut self, id: NodeId, depth: usize) -> Result<YamlNode, YamlError> {
        let nodes = self.nodes;
        self.count(id)?;
        let ComposedNode { at, content } = &nodes[id];
        if depth >= DEEPEST && !matches!(content, NodeContent::Scalar { .. }) {
            return Err(too_deep(*at));
        }
        let content = match content {
            NodeContent::Scalar { text, .. } => {
                let json = match self.scalar(&nodes[id])? {
                    // OPA keeps the sign of zero.
                    YamlScalar::Float(number) if is_negative_zero(number) && self.dialect == YamlDialect::Opa => {
                        Number::from_f64(number).map(Value::Number)
                    }
                    scalar => scalar.into_json(),
                };
                let json = json.ok_or_else(|| YamlError::new(*at, "JSON cannot represent this number"))?;
                let written = (json.is_number() || json.is_boolean()).then(|| text.as_str().into());
                return Ok(YamlNode { at: *at, written, ..json.into() });
            }
            NodeContent::Sequence(items) => {
                let items = items.iter().map(|item| self.value(*item, depth + 1));
                YamlContent::List(items.collect::<Result<_, _>>()?)
            }
            NodeContent::Mapping(pairs) => {
                let mut into = DecodedFields::default();
                self.pairs(pairs, &mut into, depth)?;
                YamlContent::Map(into.fields)
            }
            NodeContent::Alias(meant) => {
                let value = self.follow(id, |decoder| decoder.value(*meant, depth))?;
                return Ok(YamlNode { at: *at, ..value });
            }
        };
        Ok(YamlNode::new(content, *at))
    }

    fn follow<T>(
        &mut self,
        alias: NodeId,
        read: impl FnOnce(&mut Self) -> Result<T, YamlError>,
    ) -> Result<T, YamlError> {
        if self.open.contains(&alias) {
            return Err(YamlError::new(self.nodes[alias].at, "the value of an anchor contains itself"));
        }
        self.open.push(alias);
        let read = read(self);
        self.open.pop();
        read
    }

    fn pairs(&mut self, pairs: &[(NodeId, NodeId)], into: &mut DecodedFields, depth: usize) -> Result<(), YamlError> {
        let nodes = self.nodes;
        let is_merge = |(key, _): &&(NodeId, NodeId)| is_merge(&nodes[*key]);
        let pairs: Vec<_> = match self.dialect {
            YamlDialect::Kubectl => pairs.iter().collect(),
            // Own keys replace merged ones, and earlier merges later ones.
            YamlDialect::Opa | YamlDialect::Settings => {
                let (merged, own): (Vec<_>, Vec<_>) = pairs.iter().partition(is_merge);
                merged.into_iter().rev().chain(own).collect()
            }
        };
        // Merged keys are not included: the mapping may replace them.
        let mut own = HashSet::new();
        for pair @ (id, value) in pairs {
            if is_merge(&pair) {
                self.merge(*value, into, depth, true)?;
                continue;
            }
            let key = self.key(*id)?;
            let field = YamlField { key, at: nodes[*id].at, value: self.value(*value, depth + 1)? };
            let index = into.insert(field);
            if !own.insert(index) && self.duplicates.len() < MOST_DUPLICATES {
                self.duplicates.insert(*id, into.fields[index].key.clone());
            }
        }
        Ok(())
    }

    fn key(&mut self, id: NodeId) -> Result<String, YamlError> {
        let nodes = self.nodes;
        self.count(id)?;
        let refused = || YamlError::new(nodes[id].at, "a key must be a string, number or boolean");
        match &nodes[id].content {
            NodeContent::Scalar { text, .. } if self.dialect == YamlDialect::Settings => Ok(text.clone()),
            NodeContent::Scalar { .. } => self.scalar(&nodes[id])?.into_key().ok_or_else(refused),
            NodeContent::Alias(meant) => self.follow(id, |decoder| decoder.key(*meant)),
            NodeContent::Sequence(_) | NodeContent::Mapping(_) => Err(refused()),
        }
    }

    /// Adds the pairs of a mapping, or of a sequence of mappings, in which earlier ones win.
    fn merge(&mut self, id: NodeId, into: &mut DecodedFields, depth: usize, many: bool) -> Result<(), YamlError> {
        let nodes = self.nodes;
        match &nodes[id].content {
            NodeContent::Mapping(pairs) if depth < DEEPEST => {
                self.count(id)?;
                self.pairs(pairs, into, depth)
            }
            NodeContent::Mapping(_) => Err(too_deep(nodes[id].at)),
            NodeContent::Alias(meant) if matches!(nodes[*meant].content, NodeContent::Mapping(_)) => {
                self.count(id)?;
                self.follow(id, |decoder| decoder.merge(*meant, into, depth + 1, false))
            }
            NodeContent::Sequence(items) if many => {
                items.iter().rev().try_for_each(|item| self.merge(*item, into, depth, false))
            }
            _ => Err(YamlError::new(nodes[id].at, "only mappings can be merged")),
        }
    }

    fn scalar<'n>(&self, node: &'n ComposedNode) -> Result<YamlScalar<'n>, YamlError> {
        let NodeContent::Scalar { text, tag, plain } = &node.content else { return Ok(YamlScalar::Null) };
        if tag.is_none() && !plain {
            return Ok(YamlScalar::Text(text.into()));
        }
        YamlScalar::read(text, tag.as_deref(), self.dialect).map_err(|why| YamlError::new(node.at, why))
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

fn is_negative_zero(number: f64) -> bool {
    number.to_bits() == (-0.0_f64).to_bits()
}

fn is_merge(node: &ComposedNode) -> bool {
    let merge = |tag: &Option<String>| tag.as_deref() == Some("tag:yaml.org,2002:merge");
    matches!(&node.content, NodeContent::Scalar { text, tag, plain } if text == "<<" && (*plain || merge(tag)))
}
