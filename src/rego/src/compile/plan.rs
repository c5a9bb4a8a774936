//! The planner: checked rules become a [`Program`].
//!
//! It begins where the checks end: each statement of a body is a term, a call or a unification, names are resolved, what is
//! nested has a variable of its own, and the statements are in an order in which each variable has a value before it is
//! needed. What is left to do:
//!
//! - here: rules by their paths, and documents, which hold rules and what is given as data.
//! - `rules`: definitions, `else`, parameters, defaults; which conditions come first.
//! - `body`: statements in a row, each loop around what follows it.
//! - `terms`: where the value of a term is, and the steps that make it.
//! - `references`: paths below `input` and `data`, keys that iterate.
//! - `invariants`: what loops need not do again each time.
//! - `with`: other documents and functions.
//! - `unify`: which side of `=` gives variables their values. The order of the statements decides that at load: whatever has
//!   no value yet is bound, the rest is compared.
//!
//! OPA's own planner (`internal/planner`) makes programs of the same shape for its WebAssembly target.

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
    tree::Tree,
};
use crate::{
    constant::Constant,
    program::{NotTaken, PathId, PathNode, Program, RuleId, SourceLocation},
    references::Path,
    syntax::{Name, Position},
};

/// What a part of a plan is, or why there is none.
type Planned<T> = Result<T, NotTaken>;

/// Plans the rules at these paths, and all that they need. The rules must have passed all checks. A package that is `hidden`
/// is no part of `data`.
pub(super) fn plan<'p>(compiled: &Compiled, entries: impl Iterator<Item = &'p Path>, hidden: Option<&str>) -> Program {
    let tree = compiled.tree();
    let hidden = hidden.map(|package| Constant::String(package.into()));
    let mut planner = Planner { hidden, ..Planner::new(compiled, &tree, PlanKind::Fast) };
    entries.for_each(|path| planner.add_entry(path));
    planner.program
}

/// Plans the rule at a path, in the order in which it is written.
pub(super) fn plan_traced(compiled: &Compiled, entry: &Path) -> Program {
    let tree = compiled.tree();
    let mut planner = Planner::new(compiled, &tree, PlanKind::Traced);
    planner.add_entry(entry);
    planner.program
}

/// Plans definitions, each by itself.
pub(super) fn plan_definitions(compiled: &Compiled, definitions: &[DefinitionId]) -> (Program, Vec<Planned<RuleId>>) {
    let tree = compiled.tree();
    let mut planner = Planner::new(compiled, &tree, PlanKind::Covered);
    let rules = definitions.iter().map(|definition| planner.alone(*definition)).collect();
    (planner.program, rules)
}

impl Compiled {
    /// Returns the rules and packages by their paths.
    fn tree(&self) -> Tree {
        let mut tree = Tree::new(&self.rules);
        self.packages.iter().for_each(|(package, _)| tree.insert(package));
        tree
    }
}

/// What a program is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PlanKind {
    /// Results, as fast as may be.
    Fast,
    /// All statements are evaluated in the order in which they are written, each time.
    Traced,
    /// As traced; and which places were evaluated is noted.
    Covered,
}

struct Planner<'a> {
    rules: &'a [term::ResolvedRule],
    tree: &'a Tree,
    variables: &'a Variables,
    /// The builtins that `with` replaces somewhere.
    replaced: &'a BTreeSet<Name>,
    program: Program,
    /// By the first definition.
    planned: BTreeMap<usize, Planned<RuleId>>,
    /// By the path, and what is asked for below it.
    documents: BTreeMap<(Vec<Constant>, Pattern), Planned<RuleId>>,
    /// The first key of a package that is no part of `data`.
    hidden: Option<Constant>,
    kind: PlanKind,
}

/// The keys of a reference, `None` for those that are variables.
type Pattern = Vec<Option<Constant>>;

impl<'a> Planner<'a> {
    fn new(compiled: &'a Compiled, tree: &'a Tree, kind: PlanKind) -> Self {
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

impl Planner<'_> {
    fn add_entry(&mut self, path: &Path) {
        let keys: Vec<Constant> = path.iter().map(|key| Constant::String(key.as_str().into())).collect();
        let entry = self.entry(&keys);
        self.program.entries.insert(path.clone(), entry);
    }

    /// Plans a definition without the others of its rule.
    fn alone(&mut self, DefinitionId { at, depth }: DefinitionId) -> Planned<RuleId> {
        let is_it = |rule: &&term::ResolvedRule| (rule.module, rule.at) == (at.module, at.at);
        let Some(definition) = self.rules.iter().find(is_it) else { return Err(not_taken(at, "a missing definition")) };
        let rule = self.lone_rule(definition, depth)?;
        self.program.rules.push(rule);
        Ok(RuleId(self.program.rules.len() - 1))
    }

    /// Plans what is at a path: a rule or a document, or a part of one.
    fn entry(&mut self, path: &[Constant]) -> Planned<RuleId> {
        let has_rules = |depth: &usize| self.tree.at(&path[..*depth]).is_some_and(|node| !node.rules.is_empty());
        match self.tree.at(path) {
            Some(node) if !(0..path.len()).any(|depth| has_rules(&depth)) => self.value_at(path, node, Pattern::new()),
            Some(_) => self.part(path),
            None => Err(not_taken(START, "a rule that is not here")),
        }
    }

    /// Plans what is at a node: its rule, or as much of the document below it as fits a pattern.
    fn value_at(&mut self, path: &[Constant], node: &Tree, pattern: Pattern) -> Planned<RuleId> {
        if self.is_document(node) { self.document(path, node, pattern) } else { self.rule(node) }
    }

    /// Plans the rule at a node, unless that is done.
    fn rule(&mut self, node: &Tree) -> Planned<RuleId> {
        let Some(first) = node.rules.first().copied() else {
            return Err(not_taken(START, "a rule that is not here"));
        };
        if let Some(planned) = self.planned.get(&first) {
            return planned.clone();
        }
        let place = self.place(first);
        self.planned.insert(first, Err(not_taken(place, "recursion")));
        let planned = self.new_rule(node, place).map(|rule| {
            self.program.rules.push(rule);
            RuleId(self.program.rules.len() - 1)
        });
        self.planned.insert(first, planned.clone());
        planned
    }

    /// Plans as much of the document at a node as fits a pattern, unless that is done.
    fn document(&mut self, path: &[Constant], node: &Tree, mut pattern: Pattern) -> Planned<RuleId> {
        while pattern.last().is_some_and(Option::is_none) {
            pattern.pop();
        }
        let key = (path.to_vec(), pattern);
        if let Some(planned) = self.documents.get(&key) {
            return planned.clone();
        }
        let place = node.rules.first().map_or(START, |first| self.place(*first));
        self.documents.insert(key.clone(), Err(not_taken(place, "recursion")));
        let planned = self.new_document(path, node, &key.1).map(|rule| {
            self.program.rules.push(rule);
            RuleId(self.program.rules.len() - 1)
        });
        self.documents.insert(key, planned.clone());
        planned
    }

    /// Returns where a rule is written.
    fn place(&self, rule: usize) -> SourceLocation {
        SourceLocation { module: self.rules[rule].module, at: self.rules[rule].at }
    }

    /// Returns the number of a path.
    fn path(&mut self, node: PathNode) -> PathId {
        let known = self.program.paths.iter().position(|known| *known == node);
        PathId(known.unwrap_or_else(|| {
            self.program.paths.push(node);
            self.program.paths.len() - 1
        }))
    }
}

const START: SourceLocation = SourceLocation { module: 0, at: Position { line: 1, column: 1 } };

fn not_taken(at: SourceLocation, reason: impl Into<String>) -> NotTaken {
    NotTaken { reason: reason.into(), at }
}

/// Returns the value of a term in which nothing has to be evaluated.
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
                // Two values at one key are a conflict, which is found when it is made.
                if object.insert(value_of(key)?, value_of(value)?).is_some() {
                    return None;
                }
            }
            Value::from(object)
        }
        _ => return None,
    })
}
