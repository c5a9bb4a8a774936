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
    plan::{Attribute, Base, Node},
    value::{Key, Value},
};

pub(crate) type Evaluated<'v> = Result<Value<'v>, EvalError>;

/// The value of a variable of a comprehension.
enum Local<'v> {
    Unset,
    /// Evaluated when it is first read.
    Lazy(&'v Node),
    Done(Evaluated<'v>),
}

pub(crate) struct Machine<'v, 'b> {
    bindings: &'b Bindings<'v>,
    locals: Vec<Local<'v>>,
    meter: Meter,
}

impl<'v, 'b> Machine<'v, 'b> {
    pub(crate) fn new(bindings: &'b Bindings<'v>, slots: usize, meter: Meter) -> Self {
        let locals = std::iter::repeat_with(|| Local::Unset).take(slots).collect();
        Self { bindings, locals, meter }
    }

    /// Returns the cost so far.
    pub(crate) fn cost(&self) -> u64 {
        self.meter.cost()
    }

    pub(crate) fn eval(&mut self, node: &'v Node) -> Evaluated<'v> {
        match node {
            Node::Constant(value) => Ok(value.borrowed()),
            Node::Attribute(attribute) => self.attribute(attribute),
            Node::Test(attribute) => self.test(attribute),
            Node::And(terms) => self.logical(terms, false),
            Node::Or(terms) => self.logical(terms, true),
            Node::Equality { negated, sides } => self.equality(*negated, &sides.0, &sides.1),
            Node::Call(call) => self.call(call),
            Node::Member { element, set } => {
                let value = self.eval(element)?;
                if matches!(value, Value::Double(number) if number.is_nan()) {
                    return Ok(Value::Bool(false));
                }
                Ok(Value::Bool(Key::new(&value).is_some_and(|key| set.contains(&key))))
            }
            Node::List(elements) => {
                let list = self.list(elements);
                self.charged(cost::LIST, list)
            }
            Node::Map(entries) => {
                let map = self.map(entries);
                self.charged(cost::MAP, map)
            }
            Node::OrElse { unwrap, sides } => match self.eval(&sides.0)? {
                Value::Optional(None) => self.eval(&sides.1),
                Value::Optional(Some(value)) if *unwrap => Ok((*value).clone()),
                other => Ok(other),
            },
            Node::Quantifier(quantifier) => self.quantifier(quantifier),
            Node::Collect(collect) => self.collect(collect),
            Node::Fold(fold) => self.fold(fold),
        }
    }

    fn test(&mut self, attribute: &'v Attribute) -> Evaluated<'v> {
        let mut value = self.resolve(attribute);
        if let Base::Conditional(_) = attribute.base {
            // The API server subtracts the cost of a variable, which a condition does not have.
            value = self.charged(cost::UNIT.wrapping_neg(), value);
        }
        match value? {
            Value::Optional(value) => Ok(Value::Bool(value.is_some())),
            value => Ok(value),
        }
    }

    /// Adds a cost, which also failed steps have.
    fn charged(&mut self, cost: u64, result: Evaluated<'v>) -> Evaluated<'v> {
        match result {
            Err(error) if error.is_final() => Err(error),
            result => {
                self.meter.charge(cost)?;
                result
            }
        }
    }

    /// Evaluates terms until one decides; errors only count if none does.
    fn logical(&mut self, terms: &'v [Node], decisive: bool) -> Evaluated<'v> {
        let mut error = None;
        for term in terms {
            match self.eval(term) {
                Ok(Value::Bool(value)) if value == decisive => return Ok(Value::Bool(decisive)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => error = error.or_else(|| no_overload::<()>().err()),
                Err(failure) if failure.is_final() => return Err(failure),
                Err(failure) => error = error.or(Some(failure)),
            }
        }
        error.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    fn equality(&mut self, negated: bool, left: &'v Node, right: &'v Node) -> Evaluated<'v> {
        let (left, right) = (self.operand(left)?, self.operand(right)?);
        let size = |side: &Evaluated<'v>| side.as_ref().map_or(1, Value::cost_size);
        let cost = match &left {
            Ok(value) if !negated && value.is_of_kubernetes() => cost::UNIT,
            _ => size(&left).min(size(&right)).div_ceil(10),
        };
        self.meter.charge(cost)?;
        let equal = left?.equals(&right?);
        match equal {
            None if negated => Ok(Value::Bool(true)),
            None => no_overload(),
            Some(equal) => Ok(Value::Bool(equal != negated)),
        }
    }

    /// Evaluates an operand whose error does not keep the next one from being evaluated.
    fn operand(&mut self, node: &'v Node) -> Result<Evaluated<'v>, EvalError> {
        match self.eval(node) {
            Err(error) if error.is_final() => Err(error),
            result => Ok(result),
        }
    }

    fn list(&mut self, elements: &'v [(Node, bool)]) -> Evaluated<'v> {
        let mut values = Vec::with_capacity(elements.len());
        for (element, optional) in elements {
            let value = self.eval(element)?;
            match (optional, value) {
                (false, value) => values.push(value),
                (true, Value::Optional(None)) => {}
                (true, Value::Optional(Some(value))) => values.push((*value).clone()),
                (true, value) => {
                    let value = value.plain();
                    return failed(format!("cannot initialize optional list element from non-optional value {value}"));
                }
            }
        }
        Ok(Value::from(values))
    }

    fn map(&mut self, entries: &'v [(Node, Node, bool)]) -> Evaluated<'v> {
        let mut all = Vec::with_capacity(entries.len());
        for (key, value, optional) in entries {
            let key = self.eval(key)?;
            match (optional, self.eval(value)?) {
                (false, value) => all.push((key, value)),
                (true, Value::Optional(None)) => all.retain(|(known, _)| !key.is_equal(known)),
                (true, Value::Optional(Some(value))) => all.push((key, (*value).clone())),
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
