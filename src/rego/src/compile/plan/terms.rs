//! The operands of terms, and the steps that compute them.

use super::{Planned, body::BodyPlanner, value_of};
use crate::{
    compile::term::{DATA, INPUT, ResolvedComprehension, ResolvedTerm, ResolvedValue},
    program::{Collection, Operand, PathNode, ProgramStep},
    syntax::{ComprehensionKind, Position},
};

impl BodyPlanner<'_, '_> {
    /// Returns the operand of a term; references in it may iterate.
    pub(super) fn operand(&mut self, term: &ResolvedTerm) -> Planned<Operand> {
        if let Some(value) = value_of(term) {
            return Ok(Operand::Constant(value));
        }
        match &term.value {
            ResolvedValue::Variable(variable) if *variable == INPUT => {
                Ok(Operand::Path(self.planner.path(PathNode::Input)))
            }
            ResolvedValue::Variable(variable) if *variable == DATA => self.reference(std::slice::from_ref(term)),
            ResolvedValue::Variable(variable) => {
                if let Some(operand) = self.variables.get(variable) {
                    return Ok(operand.clone());
                }
                let name = self.planner.variables.name(*variable);
                let name = name.map_or("a part of an expression", |name| name).to_owned();
                Err(self.unsupported(format!("using {name} before it has a value")))
            }
            ResolvedValue::Ref(items) => self.reference(items),
            ResolvedValue::Array(items) => {
                let items = items.iter().map(|item| self.operand(item)).collect::<Planned<_>>()?;
                let into = self.register();
                self.push(ProgramStep::MakeArray { into, items });
                Ok(Operand::Register(into))
            }
            ResolvedValue::Set(items) => {
                let items = items.iter().map(|item| self.operand(item)).collect::<Planned<_>>()?;
                let into = self.register();
                self.push(ProgramStep::MakeSet { into, items });
                Ok(Operand::Register(into))
            }
            ResolvedValue::Object(fields) => {
                let field =
                    |(key, value): &(ResolvedTerm, ResolvedTerm)| Ok((self.operand(key)?, self.operand(value)?));
                let fields = fields.iter().map(field).collect::<Planned<_>>()?;
                let into = self.register();
                self.push(ProgramStep::MakeObject { into, fields });
                Ok(Operand::Register(into))
            }
            ResolvedValue::Comprehension(comprehension) => self.comprehension(term.at, comprehension),
            ResolvedValue::Constant(_) => Err(self.unsupported("a number of this size")),
            ResolvedValue::Call(_) | ResolvedValue::Template(_) | ResolvedValue::Builtin(_) => {
                Err(self.unsupported("a function as a value"))
            }
        }
    }

    fn comprehension(&mut self, at: Position, comprehension: &ResolvedComprehension) -> Planned<Operand> {
        let ResolvedComprehension { form, key, term, body } = comprehension;
        let block = self.inner(body, |body| {
            let keys = key.iter().map(|key| body.operand(key)).collect::<Planned<_>>()?;
            Ok(ProgramStep::Yield { keys, value: body.operand(term)? })
        })?;
        let form = match form {
            ComprehensionKind::Array => Collection::Array,
            ComprehensionKind::Set => Collection::Set,
            ComprehensionKind::Object => Collection::Object,
        };
        let into = self.register();
        let at = self.location(at);
        self.push(ProgramStep::Comprehension { into, form, block, at, memo: None });
        Ok(Operand::Register(into))
    }

    /// Whether all variables of a term have a value, so that it is compared and not destructured.
    pub(super) fn is_known(&self, term: &ResolvedTerm) -> bool {
        match &term.value {
            ResolvedValue::Variable(variable) => {
                *variable == INPUT || *variable == DATA || self.variables.contains_key(variable)
            }
            ResolvedValue::Array(items) | ResolvedValue::Set(items) => items.iter().all(|item| self.is_known(item)),
            ResolvedValue::Object(fields) => {
                fields.iter().all(|(key, value)| self.is_known(key) && self.is_known(value))
            }
            // Other terms bind their variables themselves.
            _ => true,
        }
    }
}
