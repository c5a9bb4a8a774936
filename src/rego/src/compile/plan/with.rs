//! `with`: replacements of documents and functions.

use super::{
    Planned,
    body::{BodyPlanner, found},
};
use crate::{
    builtins::Callee,
    compile::{
        term::{DATA, ResolvedStatement, ResolvedTerm, ResolvedValue, ResolvedWith, VariableSet, WithTargetValue},
        visit,
    },
    program::{Callable, Collection, Operand, ProgramStep, Replacement, RuleId, Substitute},
};

impl BodyPlanner<'_, '_> {
    /// Plans a statement that is evaluated with replaced documents and functions. Its solutions for the variables that
    /// it binds are iterated outside; later statements are evaluated without the replacements.
    pub(super) fn with(&mut self, statement: &ResolvedStatement) -> Planned<()> {
        let replaced = statement.with.iter().map(|with| self.replacement(with)).collect::<Planned<_>>()?;
        let plain = ResolvedStatement { with: Vec::new(), ..statement.clone() };
        self.keep_values(&plain);
        let before = self.variables.clone();
        let mut bound = Vec::new();
        let block = self.inner(std::slice::from_ref(&plain), |body| {
            let new = body.variables.iter().filter(|(variable, _)| !before.contains_key(variable));
            let (variables, items): (Vec<_>, Vec<_>) =
                new.map(|(variable, operand)| (*variable, operand.clone())).unzip();
            bound = variables;
            if bound.is_empty() {
                return Ok(found());
            }
            let into = body.register();
            body.push(ProgramStep::MakeArray { into, items: items.into() });
            Ok(ProgramStep::Yield { keys: Box::default(), value: Operand::Register(into) })
        })?;
        if bound.is_empty() {
            self.push(ProgramStep::With { replaced, block, into: None });
            return Ok(());
        }
        let into = self.register();
        self.push(ProgramStep::With { replaced, block, into: Some(into) });
        let (_, solution) = self.each(Operand::Register(into));
        for (index, variable) in bound.into_iter().enumerate() {
            let value = self.get(solution.clone(), vec![Operand::Constant(regorus::Value::from(index))]);
            self.variables.insert(variable, value);
        }
        Ok(())
    }

    /// Copies the values of a statement's variables into registers, as the documents that they come from may be
    /// replaced inside.
    fn keep_values(&mut self, statement: &ResolvedStatement) {
        let mut used = VariableSet::new();
        visit::all_of_statement(statement, &mut used);
        for variable in used {
            if let Some(from @ (Operand::Path(_) | Operand::Rule(_))) = self.variables.get(&variable).cloned() {
                let into = self.register();
                self.push(ProgramStep::Get { into, from, keys: Box::default() });
                self.variables.insert(variable, Operand::Register(into));
            }
        }
    }

    fn replacement(&mut self, with: &ResolvedWith) -> Planned<Replacement> {
        let function = match &with.target.value {
            WithTargetValue::Builtin(name) => Callable::Builtin(self.builtin(name)?),
            WithTargetValue::Ref(items) => {
                let is_data = items.first().and_then(ResolvedTerm::as_variable) == Some(DATA);
                let keys = items.get(1..).unwrap_or_default();
                match self.function(keys).filter(|_| is_data) {
                    Some(function) => Callable::Rule(function?),
                    None if is_data => return Ok(Replacement::Data(self.operands(keys)?.into(), self.value(with)?)),
                    None => return Ok(Replacement::Input(self.operands(keys)?.into(), self.value(with)?)),
                }
            }
            WithTargetValue::Variable(_) | WithTargetValue::Other => {
                return Err(self.unsupported("this target of `with`"));
            }
        };
        let substitute = match &with.value.value {
            ResolvedValue::Builtin(name) => Substitute::Function(Callable::Builtin(self.builtin(name)?)),
            ResolvedValue::Ref(items) if items.first().and_then(ResolvedTerm::as_variable) == Some(DATA) => {
                match self.function(&items[1..]) {
                    Some(function) => Substitute::Function(Callable::Rule(function?)),
                    None => Substitute::Rule(self.rule_value(&with.value)?),
                }
            }
            _ => Substitute::Value(self.operand(&with.value)?),
        };
        Ok(Replacement::Function(function, substitute))
    }

    /// Returns the replacement of a document.
    fn value(&mut self, with: &ResolvedWith) -> Planned<Operand> {
        // A function has no value.
        if let ResolvedValue::Ref(items) = &with.value.value
            && self.function(items.get(1..).unwrap_or_default()).is_some()
        {
            return Ok(Operand::Constant(regorus::Value::Undefined));
        }
        self.operand(&with.value)
    }

    /// Returns an array with the value of a rule, which need not be defined.
    fn rule_value(&mut self, rule: &ResolvedTerm) -> Planned<Operand> {
        let block =
            self.inner(&[], |body| Ok(ProgramStep::Yield { keys: Box::default(), value: body.operand(rule)? }))?;
        let (into, at) = (self.register(), self.location(rule.at));
        self.push(ProgramStep::Comprehension { into, form: Collection::Array, block, at, memo: None });
        Ok(Operand::Register(into))
    }

    fn builtin(&self, name: &str) -> Planned<Callee> {
        Callee::find(name).ok_or_else(|| self.unsupported(format!("the builtin {name}")))
    }

    /// Returns the function at a path below `data`; `None` if there is none.
    fn function(&mut self, keys: &[ResolvedTerm]) -> Option<Planned<RuleId>> {
        let keys: Vec<_> = keys.iter().map(ResolvedTerm::constant).collect::<Option<_>>()?;
        let node = self.planner.tree.at(&keys)?;
        let is_function = node.rules.iter().any(|rule| self.planner.rules[*rule].is_function());
        is_function.then(|| self.planner.rule(node))
    }
}
