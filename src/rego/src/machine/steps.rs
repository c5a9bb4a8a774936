//! Running the steps of a block.

use std::collections::{BTreeMap, BTreeSet};

use regorus::Value;

use super::{
    Machine,
    limit::Halt,
    sink::{self, ResultSink},
    slot::{self, Slot},
};
use crate::{
    builtins::Callee,
    program::{Block, Callable, Collection, MemoId, Operand, ProgramStep, Register},
};

impl<'v> Machine<'v, '_> {
    /// Runs a block; returns whether the sink needs no more.
    pub(super) fn block(&mut self, block: &'v Block, base: usize, sink: &mut ResultSink<'_>) -> Result<bool, Halt> {
        for step in block {
            match step {
                ProgramStep::Each { operand, key, value, block, filter } => {
                    return self.each(operand, (*key, *value), (block, filter.as_ref()), base, sink);
                }
                ProgramStep::Walk { operand, path, value, block } => {
                    return self.walk(operand, (*path, *value), block, base, sink);
                }
                ProgramStep::Yield { keys, value } => return self.yield_to(keys, value, base, sink),
                step if !self.holds(step, base)? => return Ok(false),
                _ => {}
            }
        }
        Ok(false)
    }

    /// Whether a step that neither iterates nor yields holds.
    #[inline]
    pub(super) fn holds(&mut self, step: &'v ProgramStep, base: usize) -> Result<bool, Halt> {
        Ok(match step {
            ProgramStep::Each { .. } | ProgramStep::Walk { .. } | ProgramStep::Yield { .. } => true, // These end a block.
            ProgramStep::Test(operand) => self.value(operand, base)?.is_some_and(|value| *value != Value::Bool(false)),
            ProgramStep::Defined(operand) => self.value(operand, base)?.is_some(),
            ProgramStep::Equal(left, right) => {
                self.pair(left, right, base)?.is_some_and(|(left, right)| equal(left, right))
            }
            ProgramStep::Compare { by, left, right, into } => {
                let holds = self.pair(left, right, base)?.map(|(left, right)| by.holds(left, right));
                if let Some((holds, into)) = holds.zip(*into) {
                    self.set(base, into, Slot::Own(Value::Bool(holds)));
                }
                holds.is_some_and(|holds| holds || into.is_some())
            }
            ProgramStep::Array(operand, length) => {
                matches!(self.value(operand, base)?, Some(Value::Array(items)) if items.len() == *length)
            }
            ProgramStep::Object(operand, length) => {
                matches!(self.value(operand, base)?, Some(Value::Object(fields)) if fields.len() == *length)
            }
            ProgramStep::Get { into, from, keys } => self.get(*into, from, keys, base)?,
            ProgramStep::Call { callee, arguments, into, at } => {
                let made = self.call(Callable::Builtin(*callee), arguments, into.is_none(), base);
                self.result(made.map_err(|halt| halt.at(Some(*at)))?, *into, base)
            }
            ProgramStep::Invoke { function, arguments, into } => {
                let made = self.call(Callable::Rule(*function), arguments, into.is_none(), base)?;
                self.result(made, *into, base)
            }
            ProgramStep::Note { point, arguments } => {
                self.note(*point, arguments, base)?;
                true
            }
            ProgramStep::Reached(at) => {
                self.shared.trace.reached.insert(*at);
                true
            }
            ProgramStep::With { replaced, block, into } => self.with(replaced, block, *into, base)?,
            ProgramStep::MakeArray { into, items } => self.make(items, *into, base, Value::from)?,
            ProgramStep::MakeSet { into, items } => {
                self.make(items, *into, base, |items| Value::from(items.into_iter().collect::<BTreeSet<_>>()))?
            }
            ProgramStep::MakeObject { into, fields } => self.make_object(fields, *into, base)?,
            ProgramStep::Comprehension { into, form, block, at, memo } => {
                let made = match memo {
                    Some(memo) => self.memo(*memo, *form, block, base),
                    None => self.comprehension(*form, block, base).map(Slot::Own),
                };
                self.set(base, *into, made.map_err(|halt| halt.at(Some(*at)))?);
                true
            }
            ProgramStep::Not(block) => !self.found(block, base)?,
            ProgramStep::Every { operand, key, value, block } => self.every(operand, (*key, *value), block, base)?,
        })
    }

    /// Calls a function or its replacement; `is_condition` if only whether it holds matters.
    #[inline]
    pub(super) fn call(
        &mut self,
        function: Callable,
        arguments: &'v [Operand],
        is_condition: bool,
        base: usize,
    ) -> Result<Value, Halt> {
        match (self.replaced.substitute(function), function) {
            (Some(substitute), _) => self.substituted(substitute, arguments, is_condition, base),
            (None, Callable::Builtin(callee)) => self.builtin(&callee, arguments, base),
            (None, Callable::Rule(rule)) => self.invoke(rule, arguments, base),
        }
    }

    /// Calls a builtin.
    fn builtin(&mut self, callee: &Callee, arguments: &'v [Operand], base: usize) -> Result<Value, Halt> {
        self.shared.gauge.tick()?;
        let mut given = std::mem::take(&mut self.arguments);
        let complete = self.fill(&mut given, arguments, base)?;
        let made = match complete {
            false => Ok(Value::Undefined),
            true if callee.is_impure() => {
                let key = (callee.name(), given.clone());
                match self.shared.impure.get(&key) {
                    Some(made) => Ok(made.clone()),
                    None => callee
                        .call(&given, self.strict)
                        .inspect(|made| drop(self.shared.impure.insert(key, made.clone()))),
                }
            }
            true => callee.call(&given, self.strict),
        };
        given.clear();
        self.arguments = given;
        made.map_err(Halt::failed)
    }

    /// Whether a block yields something.
    pub(super) fn found(&mut self, block: &'v Block, base: usize) -> Result<bool, Halt> {
        let mut found = false;
        self.block(block, base, &mut ResultSink::Found(&mut found))?;
        Ok(found)
    }

    pub(super) fn set(&mut self, base: usize, register: Register, slot: Slot<'v>) {
        self.registers[base + register] = slot;
    }

    /// Returns the value of an operand in the form of a register.
    pub(super) fn slot(&mut self, operand: &'v Operand, base: usize) -> Result<Slot<'v>, Halt> {
        Ok(match operand {
            Operand::Constant(value) => Slot::Ref(value),
            Operand::Register(register) => self.registers[base + register].clone(),
            Operand::Path(path) => self.path(*path).map_or(Slot::Empty, Slot::Ref),
            Operand::Rule(rule) => match self.rule(*rule)? {
                Value::Undefined => Slot::Empty,
                value => Slot::Ref(value),
            },
        })
    }

    /// Returns a reference to the value of an operand; `None` if it is undefined.
    pub(super) fn value(&mut self, operand: &'v Operand, base: usize) -> Result<Option<&Value>, Halt> {
        self.prepare(operand)?;
        Ok(self.peek(operand, base))
    }

    fn pair(&mut self, left: &'v Operand, right: &'v Operand, base: usize) -> Result<Option<(&Value, &Value)>, Halt> {
        self.prepare(left)?;
        // The other side of a comparison with an undefined value is not evaluated.
        if self.peek(left, base).is_none() {
            return Ok(None);
        }
        self.prepare(right)?;
        Ok(self.peek(left, base).zip(self.peek(right, base)))
    }

    /// Evaluates an operand, so that `peek` finds its value.
    fn prepare(&mut self, operand: &'v Operand) -> Result<(), Halt> {
        match operand {
            Operand::Constant(_) | Operand::Register(_) => {}
            Operand::Path(path) => {
                self.path(*path);
            }
            Operand::Rule(rule) => {
                self.rule(*rule)?;
            }
        }
        Ok(())
    }

    fn peek(&self, operand: &'v Operand, base: usize) -> Option<&Value> {
        match operand {
            Operand::Constant(value) => Some(value),
            Operand::Register(register) => self.registers[base + register].value(),
            Operand::Path(path) => match self.paths[path.0] {
                slot::Lookup::Found(value) => Some(value),
                _ => None,
            },
            Operand::Rule(rule) => self.values[rule.0].get().filter(|value| **value != Value::Undefined),
        }
    }

    fn get(&mut self, into: Register, from: &'v Operand, keys: &'v [Operand], base: usize) -> Result<bool, Halt> {
        keys.iter().try_for_each(|key| self.prepare(key))?;
        match (from, keys.first()) {
            // Conflicts at other keys do not matter.
            (Operand::Rule(rule), Some(key)) => {
                self.evaluated(*rule)?;
                if let Some(conflicts) = self.conflicts.get(rule) {
                    let conflict = match self.peek(key, base) {
                        Some(key) => conflicts.get(key),
                        None => conflicts.values().next(),
                    };
                    if let Some(place) = conflict {
                        return Err(sink::conflict().at(*place));
                    }
                }
            }
            _ => self.prepare(from)?,
        }
        let borrowed = match from {
            Operand::Register(register) => match &self.registers[base + register] {
                Slot::Ref(value) => Some(*value),
                _ => None,
            },
            Operand::Constant(value) => Some(value),
            Operand::Path(path) => self.path(*path),
            Operand::Rule(rule) => self.values[rule.0].get(),
        };
        let found = match borrowed {
            Some(value) => self.below(value, keys, base).map(Slot::Ref),
            None => self.peek(from, base).and_then(|value| self.below(value, keys, base)).cloned().map(Slot::Own),
        };
        let Some(found) = found else { return Ok(false) };
        self.set(base, into, found);
        Ok(true)
    }

    fn below<'a>(&self, from: &'a Value, keys: &'v [Operand], base: usize) -> Option<&'a Value> {
        keys.iter().try_fold(from, |value, key| slot::at(value, self.peek(key, base)?))
    }

    /// Collects values; returns whether all are defined.
    pub(super) fn fill(&mut self, values: &mut Vec<Value>, operands: &'v [Operand], base: usize) -> Result<bool, Halt> {
        for operand in operands {
            match self.value(operand, base)? {
                Some(value) => values.push(value.clone()),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Stores the value of a call; returns whether the step holds.
    fn result(&mut self, made: Value, into: Option<Register>, base: usize) -> bool {
        match (made, into) {
            (Value::Undefined, _) | (Value::Bool(false), None) => false,
            (made, Some(into)) => {
                self.set(base, into, Slot::Own(made));
                true
            }
            (_, None) => true,
        }
    }

    fn make(
        &mut self,
        items: &'v [Operand],
        into: Register,
        base: usize,
        make: impl FnOnce(Vec<Value>) -> Value,
    ) -> Result<bool, Halt> {
        self.shared.gauge.charge(items.len())?;
        let mut values = Vec::with_capacity(items.len());
        let complete = self.fill(&mut values, items, base)?;
        if complete {
            self.set(base, into, Slot::Own(make(values)));
        }
        Ok(complete)
    }

    fn make_object(&mut self, fields: &'v [(Operand, Operand)], into: Register, base: usize) -> Result<bool, Halt> {
        self.shared.gauge.charge(fields.len())?;
        let mut object = BTreeMap::new();
        for (key, value) in fields {
            let Some((key, value)) = self.pair(key, value, base)? else { return Ok(false) };
            object.insert(key.clone(), value.clone());
        }
        self.set(base, into, Slot::Own(Value::from(object)));
        Ok(true)
    }

    /// Returns the value of a comprehension that is computed once.
    fn memo(&mut self, MemoId(id): MemoId, form: Collection, block: &'v Block, base: usize) -> Result<Slot<'v>, Halt> {
        let cell = &self.memos[id];
        if let Some(value) = cell.get() {
            return Ok(Slot::Ref(value));
        }
        let made = self.comprehension(form, block, base)?;
        self.kept += 1;
        Ok(Slot::Ref(cell.get_or_init(|| made)))
    }

    fn comprehension(&mut self, form: Collection, block: &'v Block, base: usize) -> Result<Value, Halt> {
        self.shared.gauge.enter()?;
        Ok(match form {
            Collection::Array => {
                let mut items = Vec::new();
                self.block(block, base, &mut ResultSink::Array(&mut items))?;
                Value::from(items)
            }
            Collection::Set => {
                let mut items = BTreeSet::new();
                self.block(block, base, &mut ResultSink::Set(&mut items))?;
                Value::from(items)
            }
            Collection::Object => {
                let mut fields = BTreeMap::new();
                self.block(block, base, &mut ResultSink::Object { fields: &mut fields, conflicts: None })?;
                Value::from(fields)
            }
        })
    }

    fn yield_to(
        &mut self,
        keys: &'v [Operand],
        value: &'v Operand,
        base: usize,
        sink: &mut ResultSink<'_>,
    ) -> Result<bool, Halt> {
        if let ResultSink::Found(found) = sink {
            **found = true;
            return Ok(true);
        }
        let Some(made) = self.value(value, base)?.cloned() else { return Ok(false) };
        match sink {
            ResultSink::Found(_) => return Ok(true),
            ResultSink::One { value, once, is_function } => {
                sink::agree(value, made, *is_function)?;
                return Ok(*once);
            }
            ResultSink::Array(items) => items.push(made),
            ResultSink::Set(items) => {
                items.insert(made);
            }
            ResultSink::Object { fields, conflicts } => {
                let Some(key) = keys.first() else { return Ok(false) };
                let Some(key) = self.value(key, base)?.cloned() else { return Ok(false) };
                match conflicts {
                    Some(conflicts) if fields.get(&key).is_some_and(|before| *before != made) => {
                        conflicts.add(key);
                    }
                    _ => sink::insert(fields, key, made)?,
                }
            }
            ResultSink::Document { fields, values, elements, conflicts, given } => {
                let mut path = Vec::with_capacity(keys.len());
                if self.fill(&mut path, keys, base)? {
                    **given = true;
                    // Nothing can be added below a value.
                    let is_below_value = (1..path.len()).any(|depth| values.contains(&path[..depth]));
                    if is_below_value || !sink::insert_at(fields, &path, made, *elements) {
                        path.into_iter().take(1).for_each(|key| conflicts.add(key));
                    } else if !*elements && !values.contains(&path) {
                        values.insert(path);
                    }
                }
            }
        }
        self.shared.gauge.charge(1)?;
        Ok(false)
    }
}

/// Whether two values are equal; values at the same address need no comparison.
fn equal(left: &Value, right: &Value) -> bool {
    std::ptr::eq(left, right) || left == right
}
