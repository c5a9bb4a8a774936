//! Comprehensions.

use super::{CelMachine, EvaluatedValue, Local};
use crate::{
    cost,
    error::{EvalError, failed, no_overload},
    library::{self, limits},
    plan::{Collect, Fold, PlanNode, Quantifier, Slots},
    value::{CelList, CelValue, Map},
};

/// The elements that a comprehension iterates over.
enum FoldRange<'v> {
    List(CelList<'v>),
    Keys(Vec<CelValue<'v>>),
    Entries(Vec<(CelValue<'v>, CelValue<'v>)>),
}

impl<'v> FoldRange<'v> {
    fn new(value: CelValue<'v>, pairs: bool) -> Result<Self, EvalError> {
        match value {
            CelValue::List(list) => Ok(Self::List(list)),
            CelValue::Map(map) if pairs => Ok(Self::Entries(entries(&map))),
            CelValue::Map(map) => Ok(Self::Keys(map.keys())),
            other if pairs => failed(format!("unsupported comprehension range type: {}", library::go_type(&other))),
            other => failed(format!("got '{}', expected iterable type", library::go_type(&other))),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::List(list) => list.len(),
            Self::Keys(keys) => keys.len(),
            Self::Entries(entries) => entries.len(),
        }
    }

    fn get(&self, index: usize, pairs: bool) -> (CelValue<'v>, Option<CelValue<'v>>) {
        match self {
            Self::List(list) => match list.get(index).unwrap_or(CelValue::Null) {
                element if pairs => (CelValue::length(index), Some(element)),
                element => (element, None),
            },
            Self::Keys(keys) => (keys[index].clone(), None),
            Self::Entries(entries) => (entries[index].0.clone(), Some(entries[index].1.clone())),
        }
    }
}

fn entries<'v>(map: &Map<'v>) -> Vec<(CelValue<'v>, CelValue<'v>)> {
    map.entries()
}

impl<'v> CelMachine<'v, '_> {
    fn range(&mut self, node: &'v PlanNode, slots: Slots) -> Result<FoldRange<'v>, EvalError> {
        let value = self.eval(node)?;
        FoldRange::new(value, slots.second.is_some())
    }

    /// Sets the variables for an element.
    fn set(&mut self, range: &FoldRange<'v>, index: usize, slots: Slots) {
        let (first, second) = range.get(index, slots.second.is_some());
        self.locals[slots.first] = Local::Done(Ok(first));
        if let (Some(slot), Some(value)) = (slots.second, second) {
            self.locals[slot] = Local::Done(Ok(value));
        }
    }

    pub(super) fn quantifier(&mut self, quantifier: &'v Quantifier) -> EvaluatedValue<'v> {
        let range = self.range(&quantifier.range, quantifier.slots)?;
        // The condition reads the accumulator, negates it for `exists`, and tests it; the step reads it.
        let per_element = 3 + u64::from(quantifier.exists);
        let mut error: Option<EvalError> = None;
        let mut is_decided = false;
        for index in 0..range.len() {
            self.set(&range, index, quantifier.slots);
            if is_decided {
                self.meter.charge_units(per_element - cost::UNIT)?;
                break;
            }
            self.meter.charge_units(per_element)?;
            match self.eval(&quantifier.predicate) {
                Ok(CelValue::Bool(value)) => is_decided = value == quantifier.exists,
                Ok(_) => error = error.or_else(|| no_overload::<()>().err()),
                Err(failure) if failure.is_final() => return Err(failure),
                Err(failure) => error = error.or(Some(failure)),
            }
        }
        // The result reads the accumulator.
        self.meter.charge(cost::UNIT)?;
        match error {
            _ if is_decided => Ok(CelValue::Bool(quantifier.exists)),
            Some(error) => Err(error),
            None => Ok(CelValue::Bool(!quantifier.exists)),
        }
    }

    pub(super) fn collect(&mut self, collect: &'v Collect) -> EvaluatedValue<'v> {
        let range = self.range(&collect.range, collect.slots)?;
        let list_cost = if matches!(collect.element, PlanNode::Constant(_)) { 0 } else { cost::LIST };
        let mut collected: Result<Vec<CelValue<'v>>, EvalError> = Ok(Vec::new());
        for index in 0..range.len() {
            self.set(&range, index, collect.slots);
            if let Some(filter) = &collect.filter {
                match self.eval(filter) {
                    Ok(CelValue::Bool(true)) => {}
                    Ok(CelValue::Bool(false)) => continue,
                    Err(failure) if failure.is_final() => return Err(failure),
                    other => {
                        collected = other.and_then(|_| no_overload());
                        continue;
                    }
                }
            }
            // The step reads the accumulator, builds a list, and appends it.
            self.meter.charge(cost::UNIT)?;
            let element = self.operand(&collect.element)?;
            self.meter.charge(list_cost + cost::UNIT)?;
            collected = match (collected, element) {
                (Ok(mut list), Ok(element)) => {
                    limits::check_length(list.len() + 1)?;
                    list.push(element);
                    Ok(list)
                }
                (Err(error), _) | (Ok(_), Err(error)) => Err(error),
            };
        }
        self.meter.charge(cost::UNIT)?;
        collected.map(CelValue::from)
    }

    pub(super) fn fold(&mut self, fold: &'v Fold) -> EvaluatedValue<'v> {
        let range = self.range(&fold.range, fold.slots)?;
        self.locals[fold.accumulator] = Local::Lazy(&fold.init);
        for index in 0..range.len() {
            self.set(&range, index, fold.slots);
            match self.eval(&fold.condition) {
                Ok(CelValue::Bool(false)) => break,
                Err(failure) if failure.is_final() => return Err(failure),
                _ => {}
            }
            let step = self.operand(&fold.step)?;
            self.locals[fold.accumulator] = Local::Done(step);
        }
        self.eval(&fold.result)
    }
}
