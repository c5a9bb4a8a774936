//! Calls of every builtin with arguments at the limits of what it accepts, and with values of other types.

use std::{collections::BTreeMap, sync::LazyLock};

use kaudit_rego::analysis::yaml;
use serde::Deserialize;

use super::ModuleGenerator;

/// Builtins, and terms for their arguments.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Edges {
    /// The kinds of arguments of each builtin.
    builtins: BTreeMap<String, Vec<String>>,
    /// Builtins that version 1 refuses.
    deprecated: BTreeMap<String, Vec<String>>,
    /// Terms by kind of argument.
    values: BTreeMap<String, Vec<String>>,
}

static EDGES: LazyLock<Edges> = LazyLock::new(|| yaml::from_str(include_str!("edges.yaml")).unwrap());
/// Values of types that an argument does not have.
const OTHERS: [&str; 8] = ["null", "true", "\"é\"", "[]", "{}", "set()", "-1", "1.5"];
/// Numbers that stay small where a large one would use up all memory.
const SMALL: &str = "small";

impl ModuleGenerator {
    /// Returns a call of any builtin.
    pub(super) fn builtin_call(&mut self) -> String {
        let edges = &*EDGES;
        let is_deprecated = self.syntax.is_v0() && self.rarely(10);
        let builtins = if is_deprecated { &edges.deprecated } else { &edges.builtins };
        let (name, kinds) = builtins.iter().nth(self.random.usize(..builtins.len())).unwrap();
        let arguments: Vec<String> = kinds.iter().map(|kind| self.edge_argument(kind)).collect();
        let call = format!("{name}({})", arguments.join(", "));
        // With a known type, most uses of the value would be refused.
        if self.rarely(4) { call } else { opaque(&call) }
    }

    /// Returns a value that mostly has the type of the argument; mostly, its type is only known in evaluation.
    fn edge_argument(&mut self, kind: &str) -> String {
        let term = match self.random.u8(..10) {
            0 if kind != SMALL => return self.path(),
            1 => self.one(&OTHERS).to_owned(),
            _ => self.edge_value(kind),
        };
        if self.rarely(4) { term } else { opaque(&term) }
    }

    fn edge_value(&mut self, kind: &str) -> String {
        let kind = match kind {
            "any" => self.one(&["number", "text", "array", "set", "object"]),
            "collection" => self.one(&["text", "array", "set", "object"]),
            other => other,
        };
        let values = &EDGES.values[kind];
        values[self.random.usize(..values.len())].clone()
    }
}

/// Returns a term with the same value, whose type `opa` cannot infer.
pub(super) fn opaque(term: &str) -> String {
    format!("object.get({{0: {term}}}, 0, input)")
}
