//! The planner: checked rules become a [`Program`].
//!
//! It begins where the checks end: each statement of a body is a term, a call or a unification, names are resolved, what is
//! nested has a variable of its own, and the statements are in an order in which each variable has a value before it is
//! needed. What is left to do:
//!
//! - here: rules by their paths, and which of them a program can have. Those that it cannot have stay with regorus, with a
//!   reason; so do all that need them.
//! - `rules`: definitions, `else`, parameters, defaults; which conditions come first.
//! - `body`: statements in a row, each loop around what follows it.
//! - `terms`: where the value of a term is, and the steps that make it.
//! - `references`: paths below `input` and `data`, keys that iterate.
//! - `invariants`: what loops need not do again each time.
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

use std::collections::BTreeMap;

use regorus::Value;

use super::{
    Compiled,
    term::{self, Rule, Variables},
    tree::Tree,
};
use crate::rego::{
    constant::Constant,
    program::{NotTaken, PathId, PathNode, Program, RuleId},
    references::Path,
    syntax::Position,
};

/// What a part of a plan is, or why there is none.
type Planned<T> = Result<T, NotTaken>;

/// Plans the rules at these paths, and all that they need. The rules must have passed all checks.
pub(super) fn plan<'p>(compiled: &Compiled, entries: impl Iterator<Item = &'p Path>) -> Program {
    let tree = Tree::new(&compiled.rules);
    let mut planner = Planner {
        rules: &compiled.rules,
        tree: &tree,
        packages: &compiled.packages,
        variables: &compiled.variables,
        program: Program::default(),
        planned: BTreeMap::new(),
    };
    for path in entries {
        let keys: Vec<Constant> = path.iter().map(|key| Constant::String(key.as_str().into())).collect();
        let entry = planner.entry(&keys);
        planner.program.entries.insert(path.clone(), entry);
    }
    planner.program
}

struct Planner<'a> {
    rules: &'a [Rule],
    tree: &'a Tree,
    packages: &'a [(Vec<Constant>, Position)],
    variables: &'a Variables,
    program: Program,
    /// By the first definition.
    planned: BTreeMap<usize, Planned<RuleId>>,
}

impl Planner<'_> {
    fn entry(&mut self, path: &[Constant]) -> Planned<RuleId> {
        let node = self.tree.at(path).filter(|node| !node.rules.is_empty());
        node.map_or_else(|| Err(not_taken((0, START), "rules at several paths")), |node| self.rule(node))
    }

    /// Plans the rule at a node, unless that is done.
    fn rule(&mut self, node: &Tree) -> Planned<RuleId> {
        let Some(first) = node.rules.first().copied() else {
            return Err(not_taken((0, START), "a rule that is not here"));
        };
        if let Some(planned) = self.planned.get(&first) {
            return planned.clone();
        }
        let place = (self.rules[first].module, self.rules[first].at);
        self.planned.insert(first, Err(not_taken(place, "recursion")));
        let planned = self.new_rule(node, place).map(|rule| {
            self.program.rules.push(rule);
            RuleId(self.program.rules.len() - 1)
        });
        self.planned.insert(first, planned.clone());
        planned
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

const START: Position = Position { line: 1, column: 1 };

fn not_taken((module, at): (usize, Position), reason: impl Into<String>) -> NotTaken {
    NotTaken { reason: reason.into(), module, at }
}

/// Returns the value of a term in which nothing has to be evaluated.
fn value_of(term: &term::Term) -> Option<Value> {
    Some(match &term.value {
        term::Value::Constant(constant) => value_of_constant(constant)?,
        term::Value::Array(items) => Value::from(items.iter().map(value_of).collect::<Option<Vec<_>>>()?),
        term::Value::Set(items) => {
            Value::from(items.iter().map(value_of).collect::<Option<std::collections::BTreeSet<_>>>()?)
        }
        term::Value::Object(fields) => {
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

/// Reads a number; one with a point or an exponent is a float, which `sprintf` writes in another way.
fn number_of(text: &str) -> Option<Value> {
    let number = Value::from_numeric_string(text).ok()?;
    match text.parse::<f64>() {
        Ok(float) if text.contains(['.', 'e', 'E']) && Value::from(float) == number => Some(Value::from(float)),
        _ => Some(number),
    }
}

fn value_of_constant(constant: &Constant) -> Option<Value> {
    Some(match constant {
        Constant::Null => Value::Null,
        Constant::Boolean(value) => Value::from(*value),
        Constant::Number(number) => number_of(&number.0)?,
        Constant::String(text) => Value::String(text.clone()),
        Constant::Array(_) | Constant::Object(_) => return None,
    })
}
