//! Evaluates plans.
//!
//! The order of evaluation, the errors that `&&`, `||` and comprehensions absorb, and the cost of each step are those of
//! the API server's interpreter.

mod attributes;
mod calls;
mod folds;

pub(crate) use self::calls::dispatch;
use crate::{
    bindings::Bindings,
    budget::Meter,
    cost,
    error::{EvalError, failed, no_overload},
    library,
    plan::{Attribute, Base, PlanNode},
    value::{CelValue, MapKey},
};

pub(crate) use crate::library::EvaluatedValue;

/// The value of a variable of a comprehension.
enum Local<'v> {
    Unset,
    /// Evaluated when it is first read.
    Lazy(&'v PlanNode),
    Done(EvaluatedValue<'v>),
}

pub(crate) struct CelMachine<'v, 'b> {
    bindings: &'b Bindings<'v>,
    locals: Vec<Local<'v>>,
    meter: Meter,
}

impl<'v, 'b> CelMachine<'v, 'b> {
    pub(crate) fn new(bindings: &'b Bindings<'v>, slots: usize, meter: Meter) -> Self {
        let locals = std::iter::repeat_with(|| Local::Unset).take(slots).collect();
        Self { bindings, locals, meter }
    }

    /// Returns the cost so far.
    pub(crate) fn cost(&self) -> u64 {
        self.meter.cost()
    }

    pub(crate) fn eval(&mut self, node: &'v PlanNode) -> EvaluatedValue<'v> {
        match node {
            PlanNode::Constant(value) => Ok(value.borrowed()),
            PlanNode::Attribute(attribute) => self.attribute(attribute),
            PlanNode::Test(attribute) => self.test(attribute),
            PlanNode::And(terms) => self.logical(terms, false),
            PlanNode::Or(terms) => self.logical(terms, true),
            PlanNode::Equality { negated, sides } => self.equality(*negated, &sides.0, &sides.1),
            PlanNode::Call(call) => self.call(call),
            PlanNode::Member { element, set } => {
                let value = self.eval(element)?;
                if matches!(value, CelValue::Double(number) if number.is_nan()) {
                    return Ok(CelValue::Bool(false));
                }
                Ok(CelValue::Bool(MapKey::new(&value).is_some_and(|key| set.contains(&key))))
            }
            PlanNode::List(elements) => {
                let list = self.list(elements);
                self.charged(cost::LIST, list)
            }
            PlanNode::Map(entries) => {
                let map = self.map(entries);
                self.charged(cost::MAP, map)
            }
            PlanNode::OrElse { unwrap, sides } => match self.eval(&sides.0)? {
                CelValue::Optional(None) => self.eval(&sides.1),
                CelValue::Optional(Some(value)) if *unwrap => Ok((*value).clone()),
                other => Ok(other),
            },
            PlanNode::Quantifier(quantifier) => self.quantifier(quantifier),
            PlanNode::Collect(collect) => self.collect(collect),
            PlanNode::Fold(fold) => self.fold(fold),
        }
    }

    fn test(&mut self, attribute: &'v Attribute) -> EvaluatedValue<'v> {
        let mut value = self.resolve(attribute);
        if let Base::Conditional(_) = attribute.base {
            // The API server subtracts the cost of a variable, which a condition does not have.
            value = self.charged(cost::UNIT.wrapping_neg(), value);
        }
        match value? {
            CelValue::Optional(value) => Ok(CelValue::Bool(value.is_some())),
            value => Ok(value),
        }
    }

    /// Adds a cost, which also failed steps have.
    fn charged(&mut self, cost: u64, result: EvaluatedValue<'v>) -> EvaluatedValue<'v> {
        match result {
            Err(error) if error.is_final() => Err(error),
            result => {
                self.meter.charge(cost)?;
                result
            }
        }
    }

    /// Evaluates terms until one decides; errors only count if none does.
    fn logical(&mut self, terms: &'v [PlanNode], decisive: bool) -> EvaluatedValue<'v> {
        let mut error = None;
        for term in terms {
            match self.eval(term) {
                Ok(CelValue::Bool(value)) if value == decisive => return Ok(CelValue::Bool(decisive)),
                Ok(CelValue::Bool(_)) => {}
                Ok(_) => error = error.or_else(|| no_overload::<()>().err()),
                Err(failure) if failure.is_final() => return Err(failure),
                Err(failure) => error = error.or(Some(failure)),
            }
        }
        error.map_or(Ok(CelValue::Bool(!decisive)), Err)
    }

    fn equality(&mut self, negated: bool, left: &'v PlanNode, right: &'v PlanNode) -> EvaluatedValue<'v> {
        let (left, right) = (self.operand(left)?, self.operand(right)?);
        let size = |side: &EvaluatedValue<'v>| side.as_ref().map_or(1, CelValue::cost_size);
        let cost = match &left {
            Ok(value) if !negated && value.is_of_kubernetes() => cost::UNIT,
            _ => size(&left).min(size(&right)).div_ceil(10),
        };
        self.meter.charge(cost)?;
        let (left, right) = (left?, right?);
        self.meter.work(library::limits::equality(&left, &right)?)?;
        match left.equals(&right) {
            None if negated => Ok(CelValue::Bool(true)),
            None => no_overload(),
            Some(equal) => Ok(CelValue::Bool(equal != negated)),
        }
    }

    /// Evaluates an operand whose error does not keep the next one from being evaluated.
    fn operand(&mut self, node: &'v PlanNode) -> Result<EvaluatedValue<'v>, EvalError> {
        match self.eval(node) {
            Err(error) if error.is_final() => Err(error),
            result => Ok(result),
        }
    }

    fn list(&mut self, elements: &'v [(PlanNode, bool)]) -> EvaluatedValue<'v> {
        let mut values = Vec::with_capacity(elements.len());
        for (element, optional) in elements {
            let value = self.eval(element)?;
            match (optional, value) {
                (false, value) => values.push(value),
                (true, CelValue::Optional(None)) => {}
                (true, CelValue::Optional(Some(value))) => values.push((*value).clone()),
                (true, value) => {
                    let value = value.plain();
                    return failed(format!("cannot initialize optional list element from non-optional value {value}"));
                }
            }
        }
        Ok(CelValue::from(values))
    }

    fn map(&mut self, entries: &'v [(PlanNode, PlanNode, bool)]) -> EvaluatedValue<'v> {
        let mut all = Vec::with_capacity(entries.len());
        for (key, value, optional) in entries {
            let key = self.eval(key)?;
            match (optional, self.eval(value)?) {
                (false, value) => all.push((key, value)),
                (true, CelValue::Optional(None)) => all.retain(|(known, _)| !key.is_equal(known)),
                (true, CelValue::Optional(Some(value))) => all.push((key, (*value).clone())),
                (true, value) => {
                    let (key, value) = (key.plain(), value.plain());
                    let message = format!("cannot initialize optional entry '{key}' from non-optional value {value}");
                    return failed(message);
                }
            }
        }
        library::maps::from_entries(all)
    }
}
