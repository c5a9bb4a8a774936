//! Calls of functions.

use std::sync::Arc;

use regorus::Value;

use super::{Halt, Machine, slot::Slot};
use crate::rego::program::{Form, Operand, RuleId};

/// How many calls of one function are remembered.
const REMEMBERED: usize = 8;

/// Calls that were made, for each function, with their values; the latest take the places of the oldest.
pub(super) struct Calls {
    made: Vec<Vec<(Vec<Value>, Value)>>,
    next: usize,
}

impl Calls {
    pub(super) fn new(rules: usize) -> Self {
        Self { made: vec![Vec::new(); rules], next: 0 }
    }

    fn find(&self, function: usize, arguments: &[Slot<'_>]) -> Option<&Value> {
        let same = |known: &[Value]| {
            known.iter().zip(arguments).all(|(known, given)| given.value().is_some_and(|given| is_same(known, given)))
        };
        self.made[function].iter().find(|(known, _)| same(known)).map(|(_, value)| value)
    }

    fn insert(&mut self, function: usize, arguments: Vec<Value>, value: Value) {
        let made = &mut self.made[function];
        if made.len() < REMEMBERED {
            made.push((arguments, value));
        } else {
            self.next = (self.next + 1) % REMEMBERED;
            made[self.next] = (arguments, value);
        }
    }
}

/// Whether two values are the same for sure: comparing all that large ones hold may take longer than the call.
fn is_same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::String(left), Value::String(right)) => Arc::ptr_eq(left, right) || left == right,
        (Value::Array(left), Value::Array(right)) => Arc::ptr_eq(left, right),
        (Value::Set(left), Value::Set(right)) => Arc::ptr_eq(left, right),
        (Value::Object(left), Value::Object(right)) => Arc::ptr_eq(left, right),
        (Value::Null, Value::Null) => true,
        (Value::Bool(left), Value::Bool(right)) => left == right,
        (Value::Number(left), Value::Number(right)) => left == right,
        _ => false,
    }
}

impl<'v> Machine<'v> {
    /// Returns the value of a function, `Undefined` if it has none.
    pub(super) fn invoke(
        &mut self,
        RuleId(id): RuleId,
        arguments: &'v [Operand],
        caller: usize,
    ) -> Result<Value, Halt> {
        self.gauge.enter()?;
        let rule = &self.program.rules[id];
        let base = self.registers.len();
        for argument in arguments {
            let slot = self.slot(argument, caller)?;
            if matches!(slot, Slot::Empty) {
                self.registers.truncate(base);
                return Ok(Value::Undefined);
            }
            self.registers.push(slot);
        }
        let given = &self.registers[base..];
        if let Some(value) = self.calls.find(id, given) {
            let value = value.clone();
            self.registers.truncate(base);
            return Ok(value);
        }
        let key: Vec<Value> = given.iter().filter_map(Slot::value).cloned().collect();
        self.registers.resize_with(base + rule.registers, || Slot::Empty);
        debug_assert_eq!(rule.form, Form::Complete, "functions have one value");
        let value = self.definitions(rule, &rule.definitions, base);
        self.registers.truncate(base);
        let value = match value? {
            Value::Undefined => rule.default.clone().unwrap_or(Value::Undefined),
            value => value,
        };
        self.calls.insert(id, key, value.clone());
        Ok(value)
    }
}
