//! The planner: turns checked rules into a [`Program`].
//!
//! It starts where the checks end: each statement of a body is a term, a call or a unification, names are resolved,
//! nested expressions have variables of their own, and the statements are in an order in which each variable has a
//! value before it is needed. What remains:
//!
//! - here: rules by their paths, and documents, which combine rules and data.
//! - `rules`: definitions, `else`, parameters, defaults; the order of conditions.
//! - `body`: sequences of statements, each loop around the statements after it.
//! - `terms`: the operands of terms, and the steps that compute them.
//! - `references`: paths below `input` and `data`, keys that iterate.
//! - `invariants`: work that loops need not repeat.
//! - `with`: replaced documents and functions.
//! - `unify`: which side of `=` binds variables. The order of the statements decides that at load: variables without a
//!   value are bound, everything else is compared.
//!
//! OPA's own planner (`internal/planner`) produces programs of the same shape for its WebAssembly target.

mod body;
mod invariants;
mod references;
mod rules;
mod terms;
mod unify;
mod with;

use std::collections::{BTreeMap, BTreeSet};

use regorus::Value;

use super::{
    Compiled, DefinitionId,
    term::{self, Variables},
    tree::RuleTree,
};
use crate::{
    constant::Constant,
    program::{PathId, PathNode, Program, RuleId, SourceLocation, UnsupportedFeature},
    references::Path,
    syntax::{Name, Position},
};

/// A planned part of a program, or why it is unsupported.
type Planned<T> = Result<T, UnsupportedFeature>;

/// Plans the rules at these paths, and all rules that they depend on. The rules must have passed all checks. A package
/// that is `hidden` is not visible in `data`.
pub(super) fn plan<'p>(compiled: &Compiled, entries: impl Iterator<Item = &'p Path>, hidden: Option<&str>) -> Program {
    let tree = compiled.tree();
    let hidden = hidden.map(|package| Constant::String(package.into()));
    let mut planner = ProgramPlanner { hidden, ..ProgramPlanner::new(compiled, &tree, PlanKind::Fast) };
    entries.for_each(|path| planner.add_entry(path));
    planner.program
}

/// Plans the rule at a path, with its statements in source order.
pub(super) fn plan_traced(compiled: &Compiled, entry: &Path) -> Program {
    let tree = compiled.tree();
    let mut planner = ProgramPlanner::new(compiled, &tree, PlanKind::Traced);
    planner.add_entry(entry);
    planner.program
}

/// Plans definitions individually.
pub(super) fn plan_definitions(compiled: &Compiled, definitions: &[DefinitionId]) -> (Program, Vec<Planned<RuleId>>) {
    let tree = compiled.tree();
    let mut planner = ProgramPlanner::new(compiled, &tree, PlanKind::Covered);
    let rules = definitions.iter().map(|definition| planner.alone(*definition)).collect();
    (planner.program, rules)
}

impl Compiled {
    /// Returns the rules and packages by their paths.
    fn tree(&self) -> RuleTree {
        let mut tree = RuleTree::new(&self.rules);
        self.packages.iter().for_each(|(package, _)| tree.insert(package));
        tree
    }
}

/// The purpose of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PlanKind {
    /// Fast evaluation of results.
    Fast,
    /// All statements are evaluated in source order, and repeatedly.
    Traced,
    /// As `Traced`, and the evaluated locations are recorded.
    Covered,
}

struct ProgramPlanner<'a> {
    rules: &'a [term::ResolvedRule],
    tree: &'a RuleTree,
    variables: &'a Variables,
    /// The builtins that some `with` replaces.
    replaced: &'a BTreeSet<Name>,
    program: Program,
    /// The planned rules, by the index of their first definition.
    planned: BTreeMap<usize, Planned<RuleId>>,
    /// The planned documents, by their path and the pattern of the keys that are read below it.
    documents: BTreeMap<(Vec<Constant>, Pattern), Planned<RuleId>>,
    /// The first key of a package that is not visible in `data`.
    hidden: Option<Constant>,
    kind: PlanKind,
}

/// The keys of a reference; `None` for variables.
type Pattern = Vec<Option<Constant>>;

impl<'a> ProgramPlanner<'a> {
    fn new(compiled: &'a Compiled, tree: &'a RuleTree, kind: PlanKind) -> Self {
        Self {
            rules: &compiled.rules,
            tree,
            variables: &compiled.variables,
            replaced: &compiled.replaced,
            program: Program::default(),
            planned: BTreeMap::new(),
            documents: BTreeMap::new(),
            hidden: None,
            kind,
        }
    }
}

impl ProgramPlanner<'_> {
    fn add_entry(&mut self, path: &Path) {
        let keys: Vec<Constant> = path.iter().map(|key| Constant::String(key.as_str().into())).collect();
        let entry = self.entry(&keys);
        self.program.entries.insert(path.clone(), entry);
    }

    /// Plans a definition without the others of its rule.
    fn alone(&mut self, DefinitionId { at, depth }: DefinitionId) -> Planned<RuleId> {
        let is_it = |rule: &&term::ResolvedRule| (rule.module, rule.at) == (at.module, at.at);
        let Some(definition) = self.rules.iter().find(is_it) else {
            return Err(unsupported(at, "a missing definition"));
        };
        let rule = self.single_rule(definition, depth)?;
        self.program.rules.push(rule);
        Ok(RuleId(self.program.rules.len() - 1))
    }

    /// Plans a rule or a document, or a part of one, at a path.
    fn entry(&mut self, path: &[Constant]) -> Planned<RuleId> {
        let has_rules = |depth: &usize| self.tree.at(&path[..*depth]).is_some_and(|node| !node.rules.is_empty());
        match self.tree.at(path) {
            Some(node) if !(0..path.len()).any(|depth| has_rules(&depth)) => self.value_at(path, node, Pattern::new()),
            Some(_) => self.part(path),
            None => Err(unsupported(START, "a missing rule")),
        }
    }

    /// Plans the rule at a node, or the part of its document that matches a pattern.
    fn value_at(&mut self, path: &[Constant], node: &RuleTree, pattern: Pattern) -> Planned<RuleId> {
        if self.is_document(node) { self.document(path, node, pattern) } else { self.rule(node) }
    }

    /// Plans the rule at a node, unless it is planned already.
    fn rule(&mut self, node: &RuleTree) -> Planned<RuleId> {
        let Some(first) = node.rules.first().copied() else {
            return Err(unsupported(START, "a missing rule"));
        };
        if let Some(planned) = self.planned.get(&first) {
            return planned.clone();
        }
        let place = self.place(first);
        self.planned.insert(first, Err(unsupported(place, "recursion")));
        let planned = self.new_rule(node, place).map(|rule| {
            self.program.rules.push(rule);
            RuleId(self.program.rules.len() - 1)
        });
        self.planned.insert(first, planned.clone());
        planned
    }

    /// Plans the part of a node's document that matches a pattern, unless it is planned already.
    fn document(&mut self, path: &[Constant], node: &RuleTree, mut pattern: Pattern) -> Planned<RuleId> {
        while pattern.last().is_some_and(Option::is_none) {
            pattern.pop();
        }
        let key = (path.to_vec(), pattern);
        if let Some(planned) = self.documents.get(&key) {
            return planned.clone();
        }
        let place = node.rules.first().map_or(START, |first| self.place(*first));
        self.documents.insert(key.clone(), Err(unsupported(place, "recursion")));
        let planned = self.new_document(path, node, &key.1).map(|rule| {
            self.program.rules.push(rule);
            RuleId(self.program.rules.len() - 1)
        });
        self.documents.insert(key, planned.clone());
        planned
    }

    /// Returns the location of a rule.
    fn place(&self, rule: usize) -> SourceLocation {
        SourceLocation { module: self.rules[rule].module, at: self.rules[rule].at }
    }

    /// Returns the index of a path.
    fn path(&mut self, node: PathNode) -> PathId {
        let known = self.program.paths.iter().position(|known| *known == node);
        PathId(known.unwrap_or_else(|| {
            self.program.paths.push(node);
            self.program.paths.len() - 1
        }))
    }
}

const START: SourceLocation = SourceLocation { module: 0, at: Position { line: 1, column: 1 } };

fn unsupported(at: SourceLocation, reason: impl Into<String>) -> UnsupportedFeature {
    UnsupportedFeature { reason: reason.into(), at }
}

/// Returns the value of a term that needs no evaluation.
fn value_of(term: &term::ResolvedTerm) -> Option<Value> {
    Some(match &term.value {
        term::ResolvedValue::Constant(constant) => constant.value()?,
        term::ResolvedValue::Array(items) => Value::from(items.iter().map(value_of).collect::<Option<Vec<_>>>()?),
        term::ResolvedValue::Set(items) => {
            Value::from(items.iter().map(value_of).collect::<Option<std::collections::BTreeSet<_>>>()?)
        }
        term::ResolvedValue::Object(fields) => {
            let mut object = BTreeMap::new();
            for (key, value) in fields {
                // Two values at one key are a conflict, which is reported when the object is built.
                if object.insert(value_of(key)?, value_of(value)?).is_some() {
                    return None;
                }
            }
            Value::from(object)
        }
        _ => return None,
    })
}
