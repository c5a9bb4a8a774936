//! A call of a builtin: its arguments and its result.

use std::fmt;

use regorus::Value;

use crate::order;

/// A builtin implemented here: its name, its arity, and its function.
pub(super) type Builtin = (&'static str, u8, fn(&[Value]) -> BuiltinResult);

/// The result of a call.
pub(super) type BuiltinResult = Result<Value, BuiltinFault>;

/// Why a call has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BuiltinFault {
    /// What OPA calls a builtin error: the call is undefined, unless evaluation is strict.
    Failed(String),
    /// A limit is reached, or a feature of OPA is not supported: always an error, so that it is not mistaken for an
    /// undefined value.
    Refused(String),
}

impl fmt::Display for BuiltinFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(why) | Self::Refused(why) => f.write_str(why),
        }
    }
}

/// Returns a builtin error.
pub(super) fn failed<T>(why: impl Into<String>) -> Result<T, BuiltinFault> {
    Err(BuiltinFault::Failed(why.into()))
}

/// Returns an error for a limit that is reached or an unsupported feature.
pub(super) fn refused<T>(why: impl Into<String>) -> Result<T, BuiltinFault> {
    Err(BuiltinFault::Refused(why.into()))
}

/// Returns the name of a value's type, as in OPA's messages.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Set(_) => "set",
        Value::Object(_) => "object",
        Value::Undefined => "undefined",
    }
}

/// Returns the error for an argument (counted from one) of the wrong type.
pub(super) fn wrong_type<T>(operand: usize, wanted: &str, got: &Value) -> Result<T, BuiltinFault> {
    failed(format!("operand {operand} must be {wanted} but got {}", kind(got)))
}

/// Returns an argument that must be a string.
pub(super) fn string(arguments: &[Value], index: usize) -> Result<&str, BuiltinFault> {
    match &arguments[index] {
        Value::String(text) => Ok(text),
        other => wrong_type(index + 1, "string", other),
    }
}

/// Returns an argument that must be an integer. One that does not fit into an `i64` is an error.
pub(super) fn integer(arguments: &[Value], index: usize) -> Result<i64, BuiltinFault> {
    let Value::Number(number) = &arguments[index] else { return wrong_type(index + 1, "number", &arguments[index]) };
    match number.as_i64() {
        Some(number) => Ok(number),
        None if number.is_integer() && number.as_big().is_some() => {
            failed(format!("operand {} must be integer number but got a number that is too large", index + 1))
        }
        None => failed(format!("operand {} must be integer number but got floating-point number", index + 1)),
    }
}

/// Returns the items of an argument that must be an array.
pub(super) fn array(arguments: &[Value], index: usize) -> Result<impl Iterator<Item = &Value>, BuiltinFault> {
    match &arguments[index] {
        Value::Array(items) => Ok(items.iter()),
        other => wrong_type(index + 1, "array", other),
    }
}

/// Returns the items of an array or of a set, in order.
pub(super) fn items(value: &Value) -> Option<Vec<&Value>> {
    match value {
        Value::Array(items) => Some(items.iter().collect()),
        Value::Set(items) => Some(order::items(items)),
        _ => None,
    }
}
