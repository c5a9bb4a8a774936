//! The virtual machine that runs [programs](super::program).
//!
//! Values are borrowed from the input, the data, the program or the stored value of a rule, and owned only if a step
//! created them. Rules without parameters are evaluated once, functions once for the same arguments. An evaluation ends
//! when the time is up, when it would need too much stack or memory, or at an error with its location in the policy.
//!
//! - here: rules and definitions, and conflicts between them.
//! - `steps`: conditions, lookups, builtins, new collections; `loops`: iteration; `functions`: calls of functions.
//! - `filtering`: loops that skip elements which did not match before; `filters`: the remaining elements.
//! - `sink`: where the results of a body go.
//! - `trace`: steps that record values; `noted`: the recorded values.
//! - `with`: evaluations with replaced documents and functions; `replaced`: the replacements.
//! - `slot`: registers and lookups; `calls`: cached values of functions.
//! - `limit`: time, stack and memory.

mod calls;
mod filtering;
mod filters;
mod functions;
mod limit;
mod loops;
mod noted;
mod replaced;
mod sink;
mod slot;
mod steps;
#[cfg(test)]
mod tests;
mod trace;
mod with;

use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
};

use regorus::{Value, value::Object};

pub use self::noted::Trace;
use self::{
    calls::Calls,
    filters::Filtered,
    limit::Gauge,
    replaced::Substitutions,
    sink::{ConflictSink, Conflicts, ResultSink},
    slot::{Lookup, Slot},
};
pub(crate) use self::{
    limit::{Bounds, Halt, RuntimeError},
    noted::TraceNote,
};
use super::{
    program::{PathId, PathNode, PlannedDefinition, PlannedRule, Program, RuleForm, RuleId},
    value,
};

/// The value of an evaluated rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The value; `Undefined` if there is none.
    pub value: Value,
    /// The value of each definition by itself, without defaults.
    pub definitions: Vec<Value>,
}

/// Evaluates rules of a program together, sharing common values; also returns the trace, up to the error if there is
/// one.
pub(crate) fn evaluate(
    program: &Program,
    (input, data): (&Value, &Value),
    bounds: Bounds,
    wanted: impl Iterator<Item = RuleId>,
) -> (Result<Vec<Answer>, Halt>, Trace) {
    let (values, memos) = (cells(program.rules.len()), cells(program.memos));
    let mut shared = EvaluationState { gauge: Gauge::new(bounds), impure: BTreeMap::new(), trace: Trace::default() };
    let mut machine = Machine::new(program, (input, data), (&values, &memos), &mut shared, bounds.strict);
    let answers = wanted.map(|rule| machine.answer(rule)).collect();
    (answers, shared.trace)
}

/// Returns cells for values that are not computed yet.
fn cells(count: usize) -> Vec<OnceCell<Value>> {
    (0..count).map(|_| OnceCell::new()).collect()
}

struct Machine<'v, 's> {
    program: &'v Program,
    input: &'v Value,
    data: &'v Value,
    /// The values of rules without parameters that were needed so far.
    values: &'v [OnceCell<Value>],
    /// The values of comprehensions that are computed once.
    memos: &'v [OnceCell<Value>],
    /// The filtered elements of loops.
    filters: Vec<Filtered<'v>>,
    /// Keys of object rules that have conflicting values.
    conflicts: BTreeMap<RuleId, Conflicts>,
    /// The conflicts of the last evaluated rule.
    conflicting: Conflicts,
    paths: Vec<Lookup<'v>>,
    /// The frames of all rules under evaluation.
    registers: Vec<Slot<'v>>,
    calls: Calls,
    /// A buffer for the arguments of a builtin.
    arguments: Vec<Value>,
    shared: &'s mut EvaluationState,
    /// The replacements by `with`.
    replaced: Substitutions,
    /// The number of values kept until the evaluation ends.
    kept: usize,
    /// The remaining memory at the current element of the outermost loop.
    outermost: Option<usize>,
    strict: bool,
}

/// State of the whole evaluation, including the parts inside `with`.
struct EvaluationState {
    gauge: Gauge,
    /// The values of impure builtins, by name and arguments.
    impure: BTreeMap<(&'static str, Vec<Value>), Value>,
    trace: Trace,
}

impl Answer {
    /// Returns the value of a single definition; `None` if the rule was not evaluated.
    pub fn definition(&self, index: usize) -> Option<&Value> {
        self.definitions.get(index)
    }
}

/// Wraps a value without those of definitions.
impl From<Value> for Answer {
    fn from(value: Value) -> Self {
        Self { value, definitions: Vec::new() }
    }
}

impl<'v, 's> Machine<'v, 's> {
    fn new(
        program: &'v Program,
        (input, data): (&'v Value, &'v Value),
        (values, memos): (&'v [OnceCell<Value>], &'v [OnceCell<Value>]),
        shared: &'s mut EvaluationState,
        strict: bool,
    ) -> Self {
        Self {
            program,
            input,
            data,
            values,
            memos,
            filters: vec![Filtered::Open; program.filters],
            conflicts: BTreeMap::new(),
            conflicting: Conflicts::new(),
            paths: vec![Lookup::Open; program.paths.len()],
            registers: Vec::with_capacity(64),
            calls: Calls::new(program.rules.len()),
            arguments: Vec::new(),
            shared,
            replaced: Substitutions::default(),
            kept: 0,
            outermost: None,
            strict,
        }
    }
}

impl<'v> Machine<'v, '_> {
    /// Evaluates a rule definition by definition.
    fn answer(&mut self, RuleId(id): RuleId) -> Result<Answer, Halt> {
        let rule = &self.program.rules[id];
        let mut definitions = Vec::with_capacity(rule.definitions.len());
        for definition in &rule.definitions {
            let decided = rule.decided_by_first && definitions.iter().any(|value| *value != Value::Undefined);
            let value = if decided { Value::Undefined } else { self.together(rule, std::slice::from_ref(definition))? };
            if let Some(place) = std::mem::take(&mut self.conflicting).into_values().next() {
                return Err(sink::conflict().at(place));
            }
            definitions.push(value);
        }
        let value = match definitions.as_slice() {
            [only] => only.clone(),
            _ if rule.form == RuleForm::Document => self.rule(RuleId(id))?.clone(),
            all => merged(rule, all)?,
        };
        let value = self.or_default(rule, value)?;
        // Another rule may have needed its value before.
        Ok(Answer { value: self.values[id].get_or_init(|| value).clone(), definitions })
    }

    /// Returns the value of a rule without parameters, `Undefined` if it has none.
    fn rule(&mut self, rule: RuleId) -> Result<&'v Value, Halt> {
        let value = self.evaluated(rule)?;
        if self.conflicts.is_empty() {
            return Ok(value);
        }
        match self.conflicts.get(&rule).and_then(|conflicts| conflicts.values().next()) {
            Some(place) => Err(sink::conflict().at(*place)),
            None => Ok(value),
        }
    }

    /// Evaluates a rule without parameters; values of keys in `conflicts` are not valid.
    fn evaluated(&mut self, RuleId(id): RuleId) -> Result<&'v Value, Halt> {
        let cell = &self.values[id];
        if let Some(value) = cell.get() {
            return Ok(value);
        }
        let rule = &self.program.rules[id];
        let value = self.together(rule, &rule.definitions)?;
        let conflicts = std::mem::take(&mut self.conflicting);
        if !conflicts.is_empty() {
            self.conflicts.insert(RuleId(id), conflicts);
        }
        let value = self.or_default(rule, value)?;
        self.kept += 1;
        Ok(cell.get_or_init(|| value))
    }

    /// Returns the default of a rule if the value is undefined.
    fn or_default(&mut self, rule: &'v PlannedRule, value: Value) -> Result<Value, Halt> {
        match &rule.default {
            Some(default) if value == Value::Undefined => {
                self.shared.trace.reached.extend(rule.default_at);
                Ok(self.value(default, 0)?.cloned().unwrap_or(Value::Undefined))
            }
            _ => Ok(value),
        }
    }

    /// Evaluates definitions of a rule without parameters into one value.
    fn together(&mut self, rule: &'v PlannedRule, definitions: &'v [PlannedDefinition]) -> Result<Value, Halt> {
        self.shared.gauge.enter()?;
        let base = self.registers.len();
        self.registers.resize_with(base + rule.registers, || Slot::Empty);
        let value = self.definitions(rule, definitions, base);
        self.registers.truncate(base);
        value
    }

    fn definitions(
        &mut self,
        rule: &'v PlannedRule,
        definitions: &'v [PlannedDefinition],
        base: usize,
    ) -> Result<Value, Halt> {
        match rule.form {
            RuleForm::Complete => {
                let (mut value, is_function) = (None, rule.arity > 0);
                for definition in definitions {
                    for branch in &definition.branches {
                        let mut own = None;
                        let once = rule.decided_by_first;
                        let ran = self.block(branch, base, &mut ResultSink::One { value: &mut own, once, is_function });
                        ran.map_err(|halt| halt.at(definition.at))?;
                        if let Some(own) = own {
                            sink::agree_with(&mut value, own, (definition, is_function))?;
                            break;
                        }
                    }
                    if rule.decided_by_first && value.is_some() {
                        break;
                    }
                }
                Ok(value.map_or(Value::Undefined, |(value, _)| value))
            }
            RuleForm::Set => {
                let mut items = BTreeSet::new();
                for definition in definitions {
                    self.first_branch(definition, base, &mut ResultSink::Set(&mut items))?;
                }
                Ok(Value::from(items))
            }
            RuleForm::Object => {
                let (mut fields, mut conflicts) = (BTreeMap::new(), Conflicts::new());
                for definition in definitions {
                    let conflicts = ConflictSink { keys: &mut conflicts, at: definition.at };
                    let sink = &mut ResultSink::Object { fields: &mut fields, conflicts: Some(conflicts) };
                    self.first_branch(definition, base, sink)?;
                }
                self.conflicting = conflicts;
                Ok(Value::from(fields))
            }
            RuleForm::Document => self.document(rule, definitions, base),
        }
    }

    /// Evaluates a definition without `else`.
    fn first_branch(
        &mut self,
        definition: &'v PlannedDefinition,
        base: usize,
        sink: &mut ResultSink<'_>,
    ) -> Result<(), Halt> {
        let Some(branch) = definition.branches.first() else { return Ok(()) };
        self.block(branch, base, sink).map(drop).map_err(|halt| halt.at(definition.at))
    }

    /// Builds the document at a path from the rules there and below.
    fn document(
        &mut self,
        rule: &'v PlannedRule,
        definitions: &'v [PlannedDefinition],
        base: usize,
    ) -> Result<Value, Halt> {
        let (mut fields, mut values, mut conflicts) = (Object::new(), BTreeSet::new(), Conflicts::new());
        for definition in definitions {
            for branch in &definition.branches {
                let (elements, mut given) = (definition.gives_elements, false);
                let mut sink = ResultSink::Document {
                    fields: &mut fields,
                    values: &mut values,
                    elements,
                    conflicts: ConflictSink { keys: &mut conflicts, at: definition.at },
                    given: &mut given,
                };
                self.block(branch, base, &mut sink).map_err(|halt| halt.at(definition.at))?;
                if given {
                    break;
                }
            }
        }
        if let Some(given) = rule.path.as_ref().and_then(|path| slot::below(self.data, path)) {
            sink::add_given(&mut fields, given);
        }
        self.conflicting = conflicts;
        Ok(Value::Object(regorus::Rc::new(fields)))
    }

    /// Returns the value at a path.
    fn path(&mut self, PathId(id): PathId) -> Option<&'v Value> {
        match self.paths[id] {
            Lookup::Found(value) => return Some(value),
            Lookup::Missing => return None,
            Lookup::Open => {}
        }
        let program = self.program;
        let found = match &program.paths[id] {
            PathNode::Input => Some(self.input),
            PathNode::Data => Some(self.data),
            PathNode::Below(parent, key) => self.path(*parent).and_then(|parent| slot::at(parent, key)),
            PathNode::BelowData(parent, key) => self.path(*parent).and_then(|parent| match parent {
                Value::Object(fields) => fields.get(&Value::from(key.to_string())),
                parent => slot::at(parent, key),
            }),
        };
        let found = found.filter(|value| **value != Value::Undefined);
        self.paths[id] = found.map_or(Lookup::Missing, Lookup::Found);
        found
    }
}

/// Merges the values of definitions.
fn merged(rule: &PlannedRule, definitions: &[Value]) -> Result<Value, Halt> {
    match rule.form {
        RuleForm::Complete => {
            let mut value = None;
            let defined = rule.definitions.iter().zip(definitions).filter(|(_, own)| **own != Value::Undefined);
            for (definition, own) in defined {
                sink::agree_with(&mut value, own.clone(), (definition, false))?;
            }
            Ok(value.map_or(Value::Undefined, |(value, _)| value))
        }
        RuleForm::Set => {
            let mut items = BTreeSet::new();
            for own in definitions {
                if let Value::Set(own) = own {
                    items.extend(own.iter().cloned());
                }
            }
            Ok(Value::from(items))
        }
        // A document contains more than its definitions.
        RuleForm::Object | RuleForm::Document => {
            let mut fields = BTreeMap::new();
            for (definition, own) in rule.definitions.iter().zip(definitions) {
                for (key, value) in value::object(own).into_iter().flat_map(Object::iter) {
                    sink::insert(&mut fields, key.clone(), value.clone()).map_err(|halt| halt.at(definition.at))?;
                }
            }
            Ok(Value::from(fields))
        }
    }
}
