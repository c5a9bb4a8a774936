//! Filters: a loop that runs repeatedly over the same collection only visits the elements that may pass its first
//! steps.
//!
//! A policy that joins objects iterates over all of them for each of them: `pod := input[_]; service := input[_];
//! service.kind == "Service"`. The Services are determined once. If the next step compares the element with a value
//! from outside the loop, as in `service.metadata.name == name`, they are looked up by that value.
//!
//! A function call in such a loop whose arguments are the same for all elements is evaluated beforehand:
//! `connected(service, ingress)` need not fail once for each Pod.
//!
//! Nothing else changes: elements keep their order, and each remaining one goes through all steps.

use std::{collections::BTreeMap, rc::Rc};

use regorus::Value;

use super::{
    Machine,
    filters::{Elements, Filtered, SelectedElements},
    limit::Halt,
    loops::Registers,
    sink::ResultSink,
    slot::Slot,
};
use crate::program::{Block, FilterKey, Guard, LoopFilter};

/// Below this number of elements, visiting all of them takes no longer.
const FEWEST: usize = 16;

impl<'v> Machine<'v, '_> {
    /// Returns the elements that a loop has to visit; `None` for all.
    pub(super) fn filtered(
        &mut self,
        collection: &Slot<'v>,
        into: Registers,
        (block, filter): (&'v Block, &'v LoopFilter),
        base: usize,
    ) -> Result<Option<SelectedElements<'v>>, Halt> {
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
                    // The loop may end before it reaches that element.
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
                return Ok(Some(SelectedElements { elements: Rc::default(), wanted: None }));
            }
        }
        let wanted = match &filter.key {
            Some(FilterKey { wanted, .. }) => Some(self.value(wanted, base)?.cloned().unwrap_or(Value::Undefined)),
            None => None,
        };
        Ok(Some(SelectedElements { elements, wanted }))
    }

    /// Whether a call holds, or cannot be evaluated yet.
    fn may_hold(&mut self, guard: &'v Guard, base: usize) -> Result<bool, Halt> {
        // In strict evaluation, an earlier step may end in an error instead.
        if self.strict {
            return Ok(true);
        }
        match self.invoke(guard.function, &guard.arguments, base) {
            Ok(Value::Undefined) => Ok(false),
            Ok(made) => Ok(guard.defined || made != Value::Bool(false)),
            // Possibly no element gets as far as the call.
            Err(Halt::Failed(_)) => Ok(true),
            Err(halt) => Err(halt),
        }
    }

    /// Runs a block for each of the selected elements; returns whether the sink needs no more.
    pub(super) fn selected(
        &mut self,
        selection: &SelectedElements<'v>,
        (key, value): Registers,
        block: &'v Block,
        base: usize,
        sink: &mut ResultSink<'_>,
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

    /// Returns the elements that pass the first steps of a block.
    fn passing(
        &mut self,
        collection: &Slot<'v>,
        into: Registers,
        (block, filter): (&'v Block, &'v LoopFilter),
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
            machine.shared.gauge.charge(2)?;
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
