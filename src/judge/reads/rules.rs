//! The definitions of a unit, by path.

use std::collections::BTreeMap;

use crate::rego::analysis::{
    compile::Compiled,
    graph::Graph,
    references::Path,
    resolved::{DATA, ResolvedResult, ResolvedRule, ResolvedTerm, ResolvedValue, Variable},
};

/// The definitions of a unit.
pub(crate) struct UnitRules<'a> {
    compiled: &'a Compiled,
    definitions: BTreeMap<Path, Vec<&'a ResolvedRule>>,
    pub(super) graph: &'a Graph<'a>,
    /// Whether a failing builtin is an error.
    pub(super) strict: bool,
}

impl<'a> UnitRules<'a> {
    pub(crate) fn new(compiled: &'a Compiled, graph: &'a Graph<'a>, strict: bool) -> Self {
        let mut definitions: BTreeMap<Path, Vec<&'a ResolvedRule>> = BTreeMap::new();
        for rule in compiled.rules() {
            definitions.entry(rule.text_path()).or_default().push(rule);
        }
        Self { compiled, definitions, graph, strict }
    }

    /// Returns the definitions at a path.
    pub(super) fn at(&self, path: &[String]) -> &[&'a ResolvedRule] {
        self.definitions.get(path).map_or(&[], Vec::as_slice)
    }

    /// Whether a variable was written as `_`, so that its value is not used.
    pub(super) fn is_wildcard(&self, variable: Variable) -> bool {
        self.compiled.is_wildcard(variable)
    }

    /// Returns the definitions at a path if no rule is above or below it.
    pub(super) fn only_at(&self, path: &[String]) -> &[&'a ResolvedRule] {
        let is_only = self.graph.covered(path).into_iter().all(|covered| covered == path);
        if is_only { self.at(path) } else { &[] }
    }

    /// Returns the value of a rule with a single definition without conditions.
    pub(super) fn constant(&self, reference: &ResolvedTerm) -> Option<&'a ResolvedTerm> {
        let (DATA, path) = constant_reference(reference)? else { return None };
        let [rule] = self.only_at(&path) else { return None };
        let ResolvedResult::Value(value) = &rule.result else { return None };
        let is_plain =
            !rule.is_function() && !rule.default && rule.otherwise.is_none() && rule.path.len() == path.len();
        (is_plain && rule.is_unconditional()).then_some(value)
    }
}

/// Returns the document and the keys of a reference, if all keys are constant strings.
pub(super) fn constant_reference(term: &ResolvedTerm) -> Option<(Variable, Path)> {
    let ResolvedValue::Ref(items) = &term.value else { return None };
    let (head, keys) = items.split_first()?;
    let path = ResolvedTerm::texts(keys);
    (path.len() == keys.len()).then_some((head.as_variable().filter(|head| head.is_document())?, path))
}
