//! Comprehensions.

use super::{Evaluated, Local, Machine};
use crate::{
    cost,
    error::{EvalError, failed, no_overload},
    library::{self, limits},
    plan::{Collect, Fold, Node, Quantifier, Slots},
    value::{List, Map, Value},
};

/// The elements that a comprehension iterates over.
enum Range<'v> {
    List(List<'v>),
    Keys(Vec<Value<'v>>),
    Entries(Vec<(Value<'v>, Value<'v>)>),
}

impl<'v> Range<'v> {
    fn new(value: Value<'v>, pairs: bool) -> Result<Self, EvalError> {
        match value {
            Value::List(list) => Ok(Self::List(list)),
            Value::Map(map) if pairs => Ok(Self::Entries(entries(&map))),
            Value::Map(map) => Ok(Self::Keys(map.keys())),
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

    fn get(&self, index: usize, pairs: bool) -> (Value<'v>, Option<Value<'v>>) {
        match self {
            Self::List(list) => match list.get(index).unwrap_or(Value::Null) {
                element if pairs => (Value::length(index), Some(element)),
                element => (element, None),
            },
            Self::Keys(keys) => (keys[index].clone(), None),
            Self::Entries(entries) => (entries[index].0.clone(), Some(entries[index].1.clone())),
        }
    }
}

fn entries<'v>(map: &Map<'v>) -> Vec<(Value<'v>, Value<'v>)> {
    map.entries()
}

impl<'v> Machine<'v, '_> {
    fn range(&mut self, node: &'v Node, slots: Slots) -> Result<Range<'v>, EvalError> {
        let value = self.eval(node)?;
        Range::new(value, slots.second.is_some())
    }

    /// Sets the variables for an element.
    fn set(&mut self, range: &Range<'v>, index: usize, slots: Slots) {
        let (first, second) = range.get(index, slots.second.is_some());
        self.locals[slots.first] = Local::Done(Ok(first));
        if let (Some(slot), Some(value)) = (slots.second, second) {
            self.locals[slot] = Local::Done(Ok(value));
        }
    }

    pub(super) fn quantifier(&mut self, quantifier: &'v Quantifier) -> Evaluated<'v> {
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
                Ok(Value::Bool(value)) => is_decided = value == quantifier.exists,
                Ok(_) => error = error.or_else(|| no_overload::<()>().err()),
                Err(failure) if failure.is_final() => return Err(failure),
                Err(failure) => error = error.or(Some(failure)),
            }
        }
        // The result reads the accumulator.
        self.meter.charge(cost::UNIT)?;
        match error {
            _ if is_decided => Ok(Value::Bool(quantifier.exists)),
            Some(error) => Err(error),
            None => Ok(Value::Bool(!quantifier.exists)),
        }
    }

    pub(super) fn collect(&mut self, collect: &'v Collect) -> Evaluated<'v> {
        let range = self.range(&collect.range, collect.slots)?;
        let list_cost = if matches!(collect.element, Node::Constant(_)) { 0 } else { cost::LIST };
        let mut collected: Result<Vec<Value<'v>>, EvalError> = Ok(Vec::new());
        for index in 0..range.len() {
            self.set(&range, index, collect.slots);
            if let Some(filter) = &collect.filter {
                match self.eval(filter) {
                    Ok(Value::Bool(true)) => {}
                    Ok(Value::Bool(false)) => continue,
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
        collected.map(Value::from)
    }

    pub(super) fn fold(&mut self, fold: &'v Fold) -> Evaluated<'v> {
        let range = self.range(&fold.range, fold.slots)?;
        self.locals[fold.accumulator] = Local::Lazy(&fold.init);
        for index in 0..range.len() {
            self.set(&range, index, fold.slots);
            match self.eval(&fold.condition) {
                Ok(Value::Bool(false)) => break,
                Err(failure) if failure.is_final() => return Err(failure),
                _ => {}
            }
            let step = self.operand(&fold.step)?;
            self.locals[fold.accumulator] = Local::Done(step);
        }
        self.eval(&fold.result)
    }
}
