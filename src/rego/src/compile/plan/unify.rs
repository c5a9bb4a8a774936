//! Unification: variables without a value are bound, everything else is compared.

use super::{Planned, body::BodyPlanner};
use crate::{
    compile::term::{self, ResolvedTerm, ResolvedValue},
    program::{Operand, ProgramStep},
};

impl BodyPlanner<'_, '_> {
    pub(super) fn unify(&mut self, left: &ResolvedTerm, right: &ResolvedTerm) -> Planned<()> {
        let is_known = self.is_known(left) || self.is_known(right);
        let pairs = if is_known { None } else { term::paired(left, right) };
        if let Some(pairs) = pairs {
            return self.unify_pairs(pairs);
        }
        if !self.is_known(left) {
            let right = self.operand(right)?;
            return self.bind(left, &right);
        }
        let left = self.operand(left)?;
        // The right side may iterate over an empty collection.
        if matches!(left, Operand::Rule(_)) {
            self.push(ProgramStep::Defined(left.clone()));
        }
        self.bind(right, &left)
    }

    /// Unifies the parts of two patterns, starting with those of which one side has a value.
    fn unify_pairs(&mut self, mut pairs: Vec<(&ResolvedTerm, &ResolvedTerm)>) -> Planned<()> {
        while !pairs.is_empty() {
            let ready = pairs.iter().position(|(left, right)| self.is_known(left) || self.is_known(right));
            let (left, right) = pairs.remove(ready.unwrap_or(0));
            self.unify(left, right)?;
        }
        Ok(())
    }

    /// Binds the variables of a pattern that have no value, and compares the rest.
    pub(super) fn bind(&mut self, pattern: &ResolvedTerm, value: &Operand) -> Planned<()> {
        match &pattern.value {
            ResolvedValue::Variable(variable) if !self.is_known(pattern) => {
                if !matches!(value, Operand::Constant(_) | Operand::Register(_)) {
                    self.push(ProgramStep::Defined(value.clone()));
                }
                self.variables.insert(*variable, value.clone());
                Ok(())
            }
            ResolvedValue::Array(items) if !self.is_known(pattern) => {
                self.push(ProgramStep::Array(value.clone(), items.len()));
                for (index, item) in items.iter().enumerate() {
                    if self.is_unused(item) {
                        continue;
                    }
                    let part = self.get(value.clone(), vec![Operand::Constant(regorus::Value::from(index))]);
                    self.bind(item, &part)?;
                }
                Ok(())
            }
            ResolvedValue::Object(fields) if !self.is_known(pattern) => {
                self.push(ProgramStep::Object(value.clone(), fields.len()));
                // Constants first: they fail fastest.
                let (constant, other): (Vec<_>, Vec<_>) =
                    fields.iter().partition(|(_, part)| matches!(part.value, ResolvedValue::Constant(_)));
                for (key, part) in constant.into_iter().chain(other) {
                    let key = self.operand(key)?;
                    let found = self.get(value.clone(), vec![key]);
                    self.bind(part, &found)?;
                }
                Ok(())
            }
            ResolvedValue::Set(_) if !self.is_known(pattern) => {
                Err(self.unsupported("a set with variables as a pattern"))
            }
            _ => {
                let known = self.operand(pattern)?;
                self.push(ProgramStep::Equal(value.clone(), known));
                Ok(())
            }
        }
    }

    /// Compares a value with the length and the constant items of an array.
    pub(super) fn has_constants(&mut self, value: &Operand, items: &[ResolvedTerm]) -> Planned<()> {
        self.push(ProgramStep::Array(value.clone(), items.len()));
        for (index, item) in
            items.iter().enumerate().filter(|(_, item)| matches!(item.value, ResolvedValue::Constant(_)))
        {
            let part = self.get(value.clone(), vec![Operand::Constant(regorus::Value::from(index))]);
            let constant = self.operand(item)?;
            self.push(ProgramStep::Equal(part, constant));
        }
        Ok(())
    }

    /// Binds a pattern to an array of two items.
    pub(super) fn bind_pair(&mut self, pattern: &ResolvedTerm, first: &Operand, second: &Operand) -> Planned<()> {
        if let ResolvedValue::Array(items) = &pattern.value {
            let [left, right] = items.as_slice() else {
                self.push(ProgramStep::Test(Operand::Constant(regorus::Value::Bool(false))));
                return items.iter().try_for_each(|item| self.bind(item, second));
            };
            self.bind(left, first)?;
            return self.bind(right, second);
        }
        let into = self.register();
        self.push(ProgramStep::MakeArray { into, items: Box::new([first.clone(), second.clone()]) });
        self.bind(pattern, &Operand::Register(into))
    }

    /// Whether a term is a wildcard, which is never read.
    fn is_unused(&self, term: &ResolvedTerm) -> bool {
        !self.is_known(term) && term.as_variable().is_some_and(|variable| self.planner.variables.is_wildcard(variable))
    }
}
