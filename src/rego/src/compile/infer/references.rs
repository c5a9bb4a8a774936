//! Checks of references: whether they can have a value, and which types they imply for their variables.

use super::{Checker, Mismatch};
use crate::{
    compile::{
        env::TypeTree,
        show,
        term::{DATA, INPUT, ResolvedStatement, ResolvedStatementKind, ResolvedTerm, ResolvedValue, TemplatePart},
    },
    constant::Constant,
    syntax::Position,
    types::{self, InferredType, Type, unifies},
};

impl<'a> Checker<'a> {
    /// Checks all references of a statement except those in comprehensions and after `with`.
    pub(super) fn references_of(&mut self, statement: &'a ResolvedStatement, faults: &mut Vec<Mismatch>) {
        match &statement.kind {
            ResolvedStatementKind::Term(term) => self.references(term, faults),
            ResolvedStatementKind::Call(call) => {
                call.arguments.iter().for_each(|argument| self.references(argument, faults));
            }
            ResolvedStatementKind::Unify(left, right) => {
                self.references(left, faults);
                self.references(right, faults);
            }
            ResolvedStatementKind::Every(every) => {
                self.references(&every.domain, faults);
                every.body.iter().for_each(|inner| self.references_of(inner, faults));
            }
            ResolvedStatementKind::Not(body) => body.iter().for_each(|inner| self.references_of(inner, faults)),
        }
    }

    fn references(&mut self, term: &'a ResolvedTerm, faults: &mut Vec<Mismatch>) {
        match &term.value {
            ResolvedValue::Constant(_) | ResolvedValue::Variable(_) | ResolvedValue::Comprehension(_) => {}
            ResolvedValue::Builtin(name) => faults.push(Mismatch {
                at: term.at,
                message: format!("function {name} used as reference, not called"),
                unknown: false,
            }),
            ResolvedValue::Ref(items) => {
                let before = faults.len();
                faults.extend(self.reference(items).err());
                if faults.len() == before {
                    for item in items {
                        self.references(item, faults);
                    }
                }
            }
            ResolvedValue::Array(items) | ResolvedValue::Set(items) => {
                for item in items {
                    self.references(item, faults);
                }
            }
            ResolvedValue::Object(fields) => {
                for (key, value) in fields {
                    self.references(key, faults);
                    self.references(value, faults);
                }
            }
            ResolvedValue::Call(call) => call.arguments.iter().for_each(|argument| self.references(argument, faults)),
            ResolvedValue::Template(parts) => {
                for part in parts {
                    if let TemplatePart::Statement(statement) = part {
                        self.references_of(statement, faults);
                    }
                }
            }
        }
    }

    /// Checks that a reference can have a value, and infers the types of its variables.
    fn reference(&mut self, items: &'a [ResolvedTerm]) -> Result<(), Mismatch> {
        if let Some(Type::Function(_)) = self.env.reference(items) {
            let at = items.first().map_or(Position { line: 0, column: 0 }, |head| head.at);
            let message = format!("function {} used as reference, not called", show::reference(items, self.variables));
            return Err(Mismatch { at, message, unknown: false });
        }
        let head = items.first().and_then(ResolvedTerm::as_variable);
        let (trees, variable) = self.env.documents(head);
        for tree in &trees {
            if let Some(answer) = self.in_tree(tree, items) {
                return answer;
            }
        }
        if let Some(ty) = variable {
            return self.below(Some(ty), items, 1);
        }
        match head {
            // A path without rules may exist as data.
            Some(DATA | INPUT) if trees.is_empty() => self.below(Some(Type::any()), items, 1),
            Some(DATA | INPUT) | None => Ok(()),
            Some(variable) => {
                self.env.learn(variable, Some(Type::any()));
                self.below(Some(Type::any()), items, 1)
            }
        }
    }

    /// Follows a reference in a tree; `None` if it leads out of it.
    fn in_tree(&mut self, tree: &TypeTree, items: &'a [ResolvedTerm]) -> Option<Result<(), Mismatch>> {
        let mut node = tree;
        if node.value.is_some() {
            return Some(self.below(node.value.clone(), items, 1));
        }
        for (index, key) in items.iter().enumerate().skip(1) {
            let constant = key.constant();
            if index <= 2
                && !matches!(key.value, ResolvedValue::Variable(_) | ResolvedValue::Constant(Constant::String(_)))
            {
                let have = self.term(key);
                return Some(Err(self.undefined(items, index, &have, &Some(Type::String))));
            }
            if let ResolvedValue::Variable(variable) = key.value {
                let keys = types::keys(&node.extent());
                match self.env.variable(variable) {
                    Some(have) if !unifies(&keys, &Some(have.clone())) => {
                        return Some(Err(self.undefined(items, index, &Some(have), &keys)));
                    }
                    Some(_) => {}
                    None => self.env.learn(variable, keys),
                }
            }
            let child = constant.as_ref().and_then(|key| node.children.get(key))?;
            if child.value.is_some() {
                return Some(self.below(child.value.clone(), items, index + 1));
            }
            node = child;
        }
        Some(Ok(()))
    }

    /// Follows the keys of a reference from `index` on, below a value of the given type.
    fn below(&mut self, mut ty: InferredType, items: &'a [ResolvedTerm], index: usize) -> Result<(), Mismatch> {
        for (index, key) in items.iter().enumerate().skip(index) {
            if ty.as_ref().is_some_and(Type::is_empty) {
                if self.is_lenient {
                    return Ok(());
                }
                return Err(self.undefined(items, index, &None, &None));
            }
            let Some(keys) = types::keys(&ty) else {
                return Err(self.undefined(items, index, &None, &None));
            };
            let keys = Some(keys);
            ty = match &key.value {
                ResolvedValue::Variable(variable) => {
                    match self.env.variable(*variable) {
                        Some(have) if !unifies(&Some(have.clone()), &keys) => {
                            return Err(self.undefined(items, index, &Some(have), &keys));
                        }
                        Some(_) => {}
                        None => self.env.learn(*variable, keys),
                    }
                    types::values(&ty)
                }
                ResolvedValue::Constant(constant) => match types::select(&ty, constant) {
                    None => return Err(self.undefined(items, index, &None, &keys)),
                    child => child,
                },
                ResolvedValue::Array(_) | ResolvedValue::Object(_) | ResolvedValue::Set(_) => {
                    if !self.learn_from(key, &keys, false) {
                        let have = self.term(key);
                        return Err(self.undefined(items, index, &have, &keys));
                    }
                    types::values(&ty)
                }
                _ => types::values(&ty),
            };
        }
        Ok(())
    }

    fn undefined(&self, items: &[ResolvedTerm], index: usize, have: &InferredType, want: &InferredType) -> Mismatch {
        let reference = show::reference(items, self.variables);
        let key = items.get(index).map(|key| show::term(key, self.variables)).unwrap_or_default();
        let why = match (have, want) {
            (Some(have), Some(want)) => {
                format!("{key} is {}, and the keys there are {}", show::short(have), show::short(want))
            }
            (None, Some(_)) => format!("there is no {key}"),
            _ => format!("{key} is looked up in a value without keys"),
        };
        let at = items.first().map_or(Position { line: 0, column: 0 }, |head| head.at);
        Mismatch { at, message: format!("undefined ref: {reference}: {why}"), unknown: false }
    }
}
