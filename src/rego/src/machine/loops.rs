//! Steps that iterate.

use regorus::Value;

use super::{Machine, limit::Halt, sink::ResultSink, slot::Slot};
use crate::{
    order,
    program::{Block, LoopFilter, Operand, Register},
};

/// The registers of a key and a value.
pub(super) type Registers = (Register, Register);

impl<'v> Machine<'v, '_> {
    /// Runs a block for each element; returns whether the sink needs no more.
    pub(super) fn each(
        &mut self,
        operand: &'v Operand,
        into: Registers,
        (block, filter): (&'v Block, Option<&'v LoopFilter>),
        base: usize,
        sink: &mut ResultSink<'_>,
    ) -> Result<bool, Halt> {
        self.shared.gauge.enter()?;
        let collection = self.slot(operand, base)?;
        if let Some(filter) = filter
            && let Some(elements) = self.filtered(&collection, into, (block, filter), base)?
        {
            return self.selected(&elements, into, block, base, sink);
        }
        let mut run = |machine: &mut Self| machine.iteration(block, base, sink);
        match collection {
            Slot::Empty => Ok(false),
            Slot::Ref(value) => self.elements(value, Slot::Ref, into, base, &mut run),
            Slot::Own(value) => self.elements(&value, |value| Slot::Own(value.clone()), into, base, &mut run),
        }
    }

    /// Runs a block for one element; returns whether the sink needs no more. If the element contributes nothing, the
    /// values made for it are dropped and not charged.
    pub(super) fn iteration(&mut self, block: &'v Block, base: usize, sink: &mut ResultSink<'_>) -> Result<bool, Halt> {
        let (left, kept, found) = (self.shared.gauge.left(), self.kept, sink.len());
        let is_outermost = self.outermost.is_none();
        self.outermost = self.outermost.or(Some(left));
        let enough = self.block(block, base, sink)?;
        if is_outermost {
            self.outermost = None;
        }
        if self.kept == kept && sink.len() == found {
            self.shared.gauge.refund(left);
        }
        Ok(enough)
    }

    /// Whether a block yields something for each element of a collection.
    pub(super) fn every(
        &mut self,
        operand: &'v Operand,
        into: Registers,
        block: &'v Block,
        base: usize,
    ) -> Result<bool, Halt> {
        self.shared.gauge.enter()?;
        let mut run = |machine: &mut Self| {
            let mut found = false;
            machine.block(block, base, &mut ResultSink::Found(&mut found))?;
            Ok(!found)
        };
        let missed = match self.slot(operand, base)? {
            slot if !slot.value().is_some_and(is_collection) => return Ok(false),
            Slot::Empty => return Ok(false),
            Slot::Ref(value) => self.elements(value, Slot::Ref, into, base, &mut run)?,
            Slot::Own(value) => self.elements(&value, |value| Slot::Own(value.clone()), into, base, &mut run)?,
        };
        Ok(!missed)
    }

    /// Calls `run` with each element in the registers, until it returns true; returns whether it did.
    pub(super) fn elements<'e>(
        &mut self,
        collection: &'e Value,
        slot: impl Fn(&'e Value) -> Slot<'v>,
        (key, value): Registers,
        base: usize,
        run: &mut dyn FnMut(&mut Self) -> Result<bool, Halt>,
    ) -> Result<bool, Halt> {
        match collection {
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.shared.gauge.tick()?;
                    self.set(base, key, Slot::Own(Value::from(index)));
                    self.set(base, value, slot(item));
                    if run(self)? {
                        return Ok(true);
                    }
                }
            }
            Value::Set(items) => {
                for item in order::items(items) {
                    self.shared.gauge.tick()?;
                    self.set(base, key, slot(item));
                    self.set(base, value, slot(item));
                    if run(self)? {
                        return Ok(true);
                    }
                }
            }
            Value::Object(fields) => {
                for (name, field) in order::entries(fields) {
                    self.shared.gauge.tick()?;
                    self.set(base, key, slot(name));
                    self.set(base, value, slot(field));
                    if run(self)? {
                        return Ok(true);
                    }
                }
            }
            _ => {}
        }
        Ok(false)
    }

    /// Runs a block for a value and all values inside it, outer ones first.
    pub(super) fn walk(
        &mut self,
        operand: &'v Operand,
        (path, value): Registers,
        block: &'v Block,
        base: usize,
        sink: &mut ResultSink<'_>,
    ) -> Result<bool, Halt> {
        self.shared.gauge.enter()?;
        let Some(root) = self.slot(operand, base)?.value().cloned() else { return Ok(false) };
        let mut open: Vec<(Vec<Value>, Value)> = vec![(Vec::new(), root)];
        while let Some((here, found)) = open.pop() {
            self.shared.gauge.tick()?;
            self.shared.gauge.charge(here.len())?;
            let before = open.len();
            let mut below = |key: Value, value: &Value| {
                let path = here.iter().cloned().chain([key]).collect();
                open.push((path, value.clone()));
            };
            match &found {
                Value::Array(items) => {
                    items.iter().enumerate().for_each(|(index, item)| below(Value::from(index), item));
                }
                Value::Set(items) => order::items(items).into_iter().for_each(|item| below(item.clone(), item)),
                Value::Object(fields) => {
                    for (key, value) in order::entries(fields) {
                        below(key.clone(), value);
                    }
                }
                _ => {}
            }
            self.shared.gauge.charge(open.len() - before)?;
            open[before..].reverse();
            self.set(base, path, Slot::Own(Value::from(here)));
            self.set(base, value, Slot::Own(found));
            if self.block(block, base, sink)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

pub(super) fn is_collection(value: &Value) -> bool {
    matches!(value, Value::Array(_) | Value::Set(_) | Value::Object(_))
}
