//! Filters: a loop that runs again over the same collection looks only at the elements that may pass its first steps.
//!
//! A policy that joins objects goes through all of them for each of them: `pod := input[_]; service := input[_];
//! service.kind == "Service"`. Which elements are Services is found once. Where what follows compares the element with what
//! the loop stands in, as `service.metadata.name == name` does, they are found by that value.
//!
//! And a call of a function in such a loop that has the same arguments for all elements is looked at before: `connected(service,
//! ingress)` need not be found false for each Pod.
//!
//! Nothing else may change by it: elements keep their order, and each that is left goes through all steps.

use std::{collections::BTreeMap, rc::Rc};

use regorus::Value;

use super::{
    Machine,
    filters::{Elements, Filtered, Selection},
    limit::Halt,
    loops::Registers,
    sink::Sink,
    slot::Slot,
};
use crate::program::{Block, Filter, FilterKey, Guard};

/// For less than so many elements a look at each takes no longer.
const FEWEST: usize = 16;

impl<'v> Machine<'v, '_> {
    /// Returns the elements that a loop has to look at; `None` for all.
    pub(super) fn filtered(
        &mut self,
        collection: &Slot<'v>,
        into: Registers,
        (block, filter): (&'v Block, &'v Filter),
        base: usize,
    ) -> Result<Option<Selection<'v>>, Halt> {
        if length(collection) < FEWEST {
            return Ok(None);
        }
        let elements = match &self.filters[filter.id] {
            Filtered::Known(elements) => Rc::clone(elements),
            Filtered::All => return Ok(None),
            Filtered::Open => {
                self.filters[filter.id] = Filtered::Ran;
                return Ok(None);
            }
            Filtered::Ran => {
                self.filters[filter.id] = Filtered::All;
                let elements = match self.passing(collection, into, (block, filter), base) {
                    Ok(elements) => Rc::new(elements),
                    // The loop may end before it comes to that element.
                    Err(Halt::Failed(_)) => return Ok(None),
                    Err(halt) => return Err(halt),
                };
                self.filters[filter.id] = Filtered::Known(Rc::clone(&elements));
                self.kept += 1;
                elements
            }
        };
        for guard in &filter.guards {
            if elements.all.is_empty() || !self.may_hold(guard, base)? {
                return Ok(Some(Selection { elements: Rc::default(), wanted: None }));
            }
        }
        let wanted = match &filter.key {
            Some(FilterKey { wanted, .. }) => Some(self.value(wanted, base)?.cloned().unwrap_or(Value::Undefined)),
            None => None,
        };
        Ok(Some(Selection { elements, wanted }))
    }

    /// Whether a call holds, or nobody can say.
    fn may_hold(&mut self, guard: &'v Guard, base: usize) -> Result<bool, Halt> {
        // Where builtins that fail are errors, the steps before the call may be one.
        if self.strict {
            return Ok(true);
        }
        match self.invoke(guard.function, &guard.arguments, base) {
            Ok(Value::Undefined) => Ok(false),
            Ok(made) => Ok(guard.defined || made != Value::Bool(false)),
            // No element may come as far as the call.
            Err(Halt::Failed(_)) => Ok(true),
            Err(halt) => Err(halt),
        }
    }

    /// Runs a block for each of some elements; returns whether the sink needs no more.
    pub(super) fn selected(
        &mut self,
        selection: &Selection<'v>,
        (key, value): Registers,
        block: &'v Block,
        base: usize,
        sink: &mut Sink<'_>,
    ) -> Result<bool, Halt> {
        for (own_key, element) in selection.iter() {
            self.shared.gauge.tick()?;
            self.set(base, key, own_key.clone());
            self.set(base, value, element.clone());
            if self.iteration(block, base, sink)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Runs the first steps of a block for each element.
    fn passing(
        &mut self,
        collection: &Slot<'v>,
        into: Registers,
        (block, filter): (&'v Block, &'v Filter),
        base: usize,
    ) -> Result<Elements<'v>, Halt> {
        let mut all = Vec::new();
        let mut by_key: Option<BTreeMap<Value, Vec<usize>>> = filter.key.as_ref().map(|_| BTreeMap::new());
        let mut run = |machine: &mut Self| {
            for step in &block[..filter.steps] {
                if !machine.holds(step, base)? {
                    return Ok(false);
                }
            }
            if let (Some(places), Some(FilterKey { own, .. })) = (&mut by_key, &filter.key) {
                let Some(own) = machine.value(own, base)?.cloned() else { return Ok(false) };
                places.entry(own).or_default().push(all.len());
            }
            machine.shared.gauge.made(2)?;
            all.push((machine.registers[base + into.0].clone(), machine.registers[base + into.1].clone()));
            Ok(false)
        };
        match collection {
            Slot::Empty => false,
            Slot::Ref(value) => self.elements(value, Slot::Ref, into, base, &mut run)?,
            Slot::Own(value) => self.elements(value, |value| Slot::Own(value.clone()), into, base, &mut run)?,
        };
        Ok(Elements { all, by_key })
    }
}

fn length(collection: &Slot<'_>) -> usize {
    match collection.value() {
        Some(Value::Array(items)) => items.len(),
        Some(Value::Set(items)) => items.len(),
        Some(Value::Object(fields)) => fields.len(),
        _ => 0,
    }
}
