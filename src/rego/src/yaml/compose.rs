//! Composes the events of libyaml into nodes, with aliases that are not resolved yet.

use std::collections::HashMap;

use libyaml_safer::{ErrorKind, Event, EventData, Mark, Parser, ScalarStyle};

use super::error::YamlError;
use crate::position::Position;

/// The depth limit of the JSON parser.
pub(super) const DEEPEST: usize = 127;

/// Index of a node.
pub(super) type NodeId = usize;

/// A node of a document and its position.
pub(super) struct ComposedNode {
    pub(super) at: Position,
    pub(super) content: NodeContent,
}

/// The content of a node as it is written.
pub(super) enum NodeContent {
    Scalar { text: String, tag: Option<String>, plain: bool },
    Sequence(Vec<NodeId>),
    Mapping(Vec<(NodeId, NodeId)>),
    Alias(NodeId),
}

/// Composes the nodes of one document after the other.
pub(super) struct Composer<'t> {
    text: &'t str,
    /// Where the content ends: a line break after it was added.
    end: usize,
    parser: Parser<&'t [u8]>,
    /// The nodes of the current document.
    pub(super) nodes: Vec<ComposedNode>,
    anchors: HashMap<String, NodeId>,
    /// Where the collections around the current event begin.
    open: Vec<Mark>,
}

impl<'t> Composer<'t> {
    /// Composes a text that ends with a line break, which is not part of a block scalar if the content ends before it.
    pub(super) fn new(text: &'t str, end: usize) -> Self {
        let mut parser = Parser::new();
        parser.set_input(text.as_bytes());
        Self { text, end, parser, nodes: Vec::new(), anchors: HashMap::new(), open: Vec::new() }
    }

    /// Composes the next document, and returns its root; `None` at the end of the text.
    ///
    /// # Errors
    /// If it is not YAML, or deeper than JSON may be. The text after the document may be invalid.
    pub(super) fn document(&mut self) -> Result<Option<NodeId>, YamlError> {
        self.nodes.clear();
        self.anchors.clear();
        loop {
            match self.event()?.data {
                EventData::StreamStart { .. } => {}
                EventData::DocumentStart { .. } => break,
                _ => return Ok(None),
            }
        }
        let first = self.event()?;
        let root = self.node(first, 1)?;
        self.event()?;
        Ok(Some(root))
    }

    fn event(&mut self) -> Result<Event, YamlError> {
        self.parser.parse().map_err(|error| {
            let Some(mark) = error.problem_mark() else { return odd_character(self.text, error.problem()) };
            let is_end = |mark: Mark| mark.index >= self.text.trim_end().len() as u64;
            // A mistake that is found at the end of the text is reported where the incomplete value begins.
            if is_end(mark)
                && error.kind() == ErrorKind::Parser
                && let Some((open, bracket)) = self.bracket()
            {
                return YamlError::new(open, format!("unclosed bracket '{bracket}'"));
            }
            let begin = error.context_mark().filter(|begin| is_end(mark) && !is_end(*begin));
            let context = error.context().map_or_else(String::new, |context| format!("{context}: "));
            YamlError::new(position(begin.unwrap_or(mark)), format!("{context}{}", error.problem()))
        })
    }

    /// Returns the bracket with which the innermost collection begins, and its position.
    fn bracket(&self) -> Option<(Position, char)> {
        let mark = *self.open.last()?;
        let begin = self.text.get(usize::try_from(mark.index).ok()?..)?.chars().next()?;
        matches!(begin, '[' | '{').then_some((position(mark), begin))
    }

    fn add(&mut self, mark: Mark, anchor: Option<String>, content: NodeContent) -> NodeId {
        let id = self.nodes.len();
        self.nodes.push(ComposedNode { at: position(mark), content });
        if let Some(anchor) = anchor {
            self.anchors.insert(anchor, id);
        }
        id
    }

    fn node(&mut self, event: Event, depth: usize) -> Result<NodeId, YamlError> {
        let mark = event.start_mark;
        if depth > DEEPEST {
            return Err(too_deep(position(mark)));
        }
        match event.data {
            EventData::Scalar { anchor, tag, value: mut text, plain_implicit: plain, style, .. } => {
                let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                if is_block && event.end_mark.index > self.end as u64 && text.ends_with('\n') {
                    text.pop();
                }
                Ok(self.add(mark, anchor, NodeContent::Scalar { text, tag, plain }))
            }
            EventData::Alias { anchor } => match self.anchors.get(&anchor) {
                Some(meant) => Ok(self.add(mark, None, NodeContent::Alias(*meant))),
                // Its name may be a secret that lacks quotes.
                None => Err(YamlError::new(position(mark), "an alias of an unknown anchor")),
            },
            EventData::SequenceStart { anchor, .. } => {
                // An alias inside refers to the collection itself, which is refused when it is decoded.
                let id = self.add(mark, anchor, NodeContent::Sequence(Vec::new()));
                self.open.push(mark);
                let mut items = Vec::new();
                while let Some(event) = self.inner()? {
                    items.push(self.node(event, depth + 1)?);
                }
                self.open.pop();
                self.nodes[id].content = NodeContent::Sequence(items);
                Ok(id)
            }
            EventData::MappingStart { anchor, .. } => {
                let id = self.add(mark, anchor, NodeContent::Mapping(Vec::new()));
                self.open.push(mark);
                let mut pairs = Vec::new();
                while let Some(event) = self.inner()? {
                    let key = self.node(event, depth + 1)?;
                    let event = self.event()?;
                    pairs.push((key, self.node(event, depth + 1)?));
                }
                self.open.pop();
                self.nodes[id].content = NodeContent::Mapping(pairs);
                Ok(id)
            }
            _ => Err(YamlError::new(position(mark), "did not find a value")),
        }
    }

    /// Returns the event that starts the next node of a collection; `None` at its end.
    fn inner(&mut self) -> Result<Option<Event>, YamlError> {
        let event = self.event()?;
        Ok((!matches!(event.data, EventData::SequenceEnd | EventData::MappingEnd)).then_some(event))
    }
}

fn position(mark: Mark) -> Position {
    let from_one = |number: u64| u32::try_from(number).unwrap_or(u32::MAX).saturating_add(1);
    Position { line: from_one(mark.line), column: from_one(mark.column) }
}

/// Refuses a text for an invalid character, the only problem for which the parser does not return a position.
fn odd_character(text: &str, why: &str) -> YamlError {
    let odd = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{85}');
    let before = &text[..text.find(odd).unwrap_or(0)];
    let line = before.rfind('\n').map_or(0, |at| at + 1);
    let from_one = |count: usize| u32::try_from(count).unwrap_or(u32::MAX).saturating_add(1);
    let (line, column) = (from_one(before.matches('\n').count()), from_one(before[line..].chars().count()));
    YamlError::new(Position { line, column }, why)
}

/// Returns the error about a value that is nested too deep.
pub(super) fn too_deep(at: Position) -> YamlError {
    YamlError::excessive(at, format!("nested deeper than {DEEPEST} levels"))
}
