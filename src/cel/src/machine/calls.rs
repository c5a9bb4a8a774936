//! Calls of functions.

use super::{Evaluated, Machine};
use crate::{
    cost,
    declarations::Overload,
    error::{EvalError, failed, no_overload},
    library,
    plan::Call,
    types::Type,
    value::Value,
};

impl<'v> Machine<'v, '_> {
    pub(super) fn call(&mut self, call: &'v Call) -> Evaluated<'v> {
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
                    arguments.push(Value::Null);
                }
            }
        }
        if let Some(error) = failure {
            self.meter.charge(cost::call(call.cost, &arguments, None))?;
            return Err(error);
        }
        if call.is_limited {
            library::limits::check(call.function.name, &arguments)?;
        }
        let result = dispatch(call, &arguments);
        if result.as_ref().is_err_and(EvalError::is_final) {
            return result;
        }
        self.meter.charge(cost::call(call.cost, &arguments, result.as_ref().ok()))?;
        result
    }
}

/// Calls the implementation for the arguments.
pub(crate) fn dispatch<'v>(call: &Call, arguments: &[Value<'v>]) -> Evaluated<'v> {
    if let Some(regex) = &call.regex {
        return library::regex::constant(call.function.name, regex, arguments);
    }
    if let Some(implementation) = call.function.shared {
        return implementation(arguments);
    }
    let accepts = |overload: &Overload| {
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
        None if call.is_unguarded => no_overload(),
        None => {
            let types: Vec<_> = arguments.iter().map(Value::type_name).collect();
            failed(format!("no such overload: {}({})", call.function.name, types.join(", ")))
        }
    }
}

/// Whether a value is of a type; of lists and maps only the first element is looked at.
fn accepts(parameter: &Type, value: &Value<'_>) -> bool {
    match (parameter, value) {
        (Type::Dyn | Type::Param(_), _) => true,
        (Type::List(element), Value::List(list)) => list.get(0).is_none_or(|first| accepts(element, &first)),
        (Type::Map(entry), Value::Map(map)) => {
            map.entries().first().is_none_or(|(key, value)| accepts(&entry.0, key) && accepts(&entry.1, value))
        }
        _ => parameter.runtime_name() == value.type_name(),
    }
}
