//! Calls of functions.

use super::{CelMachine, EvaluatedValue};
use crate::{
    cost,
    declarations::FunctionOverload,
    error::{EvalError, failed, no_overload},
    library,
    plan::Call,
    types::CelType,
    value::CelValue,
};

impl<'v> CelMachine<'v, '_> {
    pub(super) fn call(&mut self, call: &'v Call) -> EvaluatedValue<'v> {
        let mut arguments = Vec::with_capacity(call.arguments.len());
        let mut failure = None;
        let last = call.arguments.len().saturating_sub(1);
        for (index, node) in call.arguments.iter().enumerate() {
            match self.eval(node) {
                Ok(value) => arguments.push(value),
                Err(error) if error.is_final() => return Err(error),
                // Without its last argument, a call has no cost.
                Err(error) if call.stops_early && index < last => return Err(error),
                Err(error) => {
                    failure = failure.or(Some(error));
                    arguments.push(CelValue::Null);
                }
            }
        }
        if let Some(error) = failure {
            self.meter.charge(cost::call(call.cost, &arguments, None))?;
            return Err(error);
        }
        if call.is_limited {
            library::limits::check(call.function.name, &arguments)?;
            let is_expensive = library::limits::is_quadratic(call.cost);
            if is_expensive && !self.meter.allows(cost::call(call.cost, &arguments, None)) {
                return Err(EvalError::CostLimit);
            }
            self.meter.work(library::limits::work(call.function.name, &arguments)?)?;
        }
        let result = match self.lookup(call, &arguments) {
            Some(found) => found,
            None => dispatch(call, &arguments),
        };
        if result.as_ref().is_err_and(EvalError::is_final) {
            return result;
        }
        self.meter.charge(cost::call(call.cost, &arguments, result.as_ref().ok()))?;
        result
    }
}

impl<'v> CelMachine<'v, '_> {
    /// Looks up other objects; `None` if the call does something else.
    fn lookup(&self, call: &Call, arguments: &[CelValue<'v>]) -> Option<EvaluatedValue<'v>> {
        let mut overloads = call.overload.into_iter().chain(&call.function.overloads);
        let is_lookup = overloads.any(|overload| overload.is_lookup() && overload.arguments.len() == arguments.len());
        is_lookup.then(|| library::lookup::call(self.bindings.lookup(), call.function.name, arguments))
    }
}

/// Calls the implementation for the arguments.
pub(crate) fn dispatch<'v>(call: &Call, arguments: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    if let Some(regex) = &call.regex {
        return library::regex::constant(call.function.name, regex, arguments);
    }
    if let Some(implementation) = call.function.shared {
        return implementation(arguments);
    }
    let accepts = |overload: &FunctionOverload| {
        overload.arguments.len() == arguments.len()
            && overload.arguments.iter().zip(arguments).all(|(parameter, argument)| accepts(parameter, argument))
    };
    let chosen = match call.overload {
        Some(overload) if call.is_unguarded || accepts(overload) => Some(overload),
        Some(_) => None,
        None => call.function.overloads.iter().find(|overload| accepts(overload)),
    };
    match chosen.and_then(|overload| overload.implementation) {
        Some(implementation) => implementation(arguments),
        None if chosen.is_some_and(FunctionOverload::is_unsupported) => {
            failed(format!("{} cannot be evaluated", call.function.name))
        }
        None if call.is_unguarded => no_overload(),
        None => {
            let types: Vec<_> = arguments.iter().map(CelValue::type_name).collect();
            failed(format!("no such overload: {}({})", call.function.name, types.join(", ")))
        }
    }
}

/// Whether a value is of a type; of lists and maps only the first element is looked at.
fn accepts(parameter: &CelType, value: &CelValue<'_>) -> bool {
    match (parameter, value) {
        (CelType::Dyn | CelType::Param(_), _) => true,
        (CelType::List(element), CelValue::List(list)) => list.get(0).is_none_or(|first| accepts(element, &first)),
        (CelType::Map(entry), CelValue::Map(map)) => {
            map.entries().first().is_none_or(|(key, value)| accepts(&entry.0, key) && accepts(&entry.1, value))
        }
        _ => parameter.runtime_name() == value.type_name(),
    }
}
