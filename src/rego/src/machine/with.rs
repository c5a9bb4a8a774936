//! `with`: evaluations with replaced documents and functions.
//!
//! Values computed outside are not valid inside, and vice versa, so each evaluation has a machine of its own; they
//! share the limits and the clock.

use std::{collections::BTreeMap, rc::Rc};

use regorus::Value;

use super::{
    Machine, cells,
    limit::Halt,
    replaced::{FunctionSubstitute, Substitutions},
    sink::ResultSink,
    slot::{self, Slot},
};
use crate::{
    program::{Block, Operand, Register, Replacement, Substitute},
    value::array,
};

/// The documents and functions inside a `with`.
struct WithEnvironment {
    input: Value,
    data: Value,
    replaced: Substitutions,
}

impl<'v> Machine<'v, '_> {
    /// Evaluates a block with replaced documents and functions; returns whether it holds.
    pub(super) fn with(
        &mut self,
        replaced: &'v [Replacement],
        block: &'v Block,
        into: Option<Register>,
        base: usize,
    ) -> Result<bool, Halt> {
        self.shared.gauge.enter()?;
        let Some(WithEnvironment { input, data, replaced }) = self.environment(replaced, base)? else {
            return Ok(false);
        };
        let program = self.program;
        let (values, memos) = (cells(program.rules.len()), cells(program.memos));
        for path in &*replaced.data {
            for (rule, value) in program.rules.iter().zip(&values) {
                if let Some(own) = rule.path.as_deref().filter(|own| own.starts_with(path)) {
                    value.get_or_init(|| slot::below(&data, own).cloned().unwrap_or(Value::Undefined));
                }
            }
        }
        let left = self.shared.gauge.left();
        let registers = self.registers[base..].to_vec();
        let mut inside = Machine::new(program, (&input, &data), (&values, &memos), &mut *self.shared, self.strict);
        (inside.registers, inside.replaced) = (registers, replaced.clone());
        let Some(into) = into else {
            let found = inside.found(block, 0)?;
            self.shared.gauge.refund(left);
            return Ok(found);
        };
        let mut solutions = Vec::new();
        inside.block(block, 0, &mut ResultSink::Array(&mut solutions))?;
        self.set(base, into, Slot::Own(Value::from(solutions)));
        Ok(true)
    }

    /// Returns the documents and functions for a block; `None` if one of the replacements is undefined.
    fn environment(&mut self, replaced: &'v [Replacement], base: usize) -> Result<Option<WithEnvironment>, Halt> {
        let (mut input, mut data) = (self.input.clone(), self.data.clone());
        let mut functions = self.replaced.functions.as_deref().cloned().unwrap_or_default();
        let mut paths = Vec::clone(&self.replaced.data);
        for replacement in replaced {
            match replacement {
                Replacement::Input(keys, value) | Replacement::Data(keys, value) => {
                    let mut path = Vec::with_capacity(keys.len());
                    let complete = self.fill(&mut path, keys, base)?;
                    let Some(value) = self.value(value, base)?.cloned().filter(|_| complete) else { return Ok(None) };
                    if matches!(replacement, Replacement::Input(..)) {
                        put(&mut input, &path, value);
                    } else {
                        put(&mut data, &path, value);
                        paths.push(path);
                    }
                }
                Replacement::Function(function, Substitute::Function(by)) => {
                    functions.push((*function, FunctionSubstitute::Function(*by)));
                }
                Replacement::Function(function, Substitute::Value(by)) => {
                    let value = self.value(by, base)?.cloned().unwrap_or(Value::Undefined);
                    functions.push((*function, FunctionSubstitute::Value(value)));
                }
                Replacement::Function(function, Substitute::Rule(by)) => {
                    let first = self.value(by, base)?.and_then(|values| array(values)?.first().cloned());
                    functions.push((*function, FunctionSubstitute::Rule(first.unwrap_or(Value::Undefined))));
                }
            }
        }
        let functions = (!functions.is_empty()).then(|| Rc::new(functions));
        Ok(Some(WithEnvironment { input, data, replaced: Substitutions { functions, data: Rc::new(paths) } }))
    }

    /// Calls the replacement of a function, which sees the functions without replacements.
    pub(super) fn substituted(
        &mut self,
        by: FunctionSubstitute,
        arguments: &'v [Operand],
        is_condition: bool,
        base: usize,
    ) -> Result<Value, Halt> {
        let is_rule = matches!(by, FunctionSubstitute::Rule(_));
        match by {
            FunctionSubstitute::Value(value) | FunctionSubstitute::Rule(value) => {
                let value = if is_condition && is_rule { Value::Bool(true) } else { value };
                let mut given = Vec::with_capacity(arguments.len());
                Ok(if self.fill(&mut given, arguments, base)? { value } else { Value::Undefined })
            }
            FunctionSubstitute::Function(function) => {
                let functions = self.replaced.functions.take();
                let made = self.call(function, arguments, is_condition, base);
                self.replaced.functions = functions;
                made
            }
        }
    }
}

/// Sets the value at a path. Other values along the path are replaced by objects.
fn put(document: &mut Value, path: &[Value], value: Value) {
    let Some((key, rest)) = path.split_first() else {
        *document = value;
        return;
    };
    if !matches!(document, Value::Object(_)) {
        *document = Value::from(BTreeMap::new());
    }
    if let Value::Object(fields) = document {
        let fields = regorus::Rc::make_mut(fields);
        if fields.get(key).is_none() {
            fields.insert(key.clone(), Value::Undefined);
        }
        if let Some(child) = fields.get_mut(key) {
            put(child, rest, value);
        }
    }
}
