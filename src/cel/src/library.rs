//! The functions of the environment.

pub(crate) mod cidr;
pub(crate) mod convert;
pub(crate) mod floats;
pub(crate) mod format;
pub(crate) mod ip;
pub(crate) mod limits;
mod lists;
pub(crate) mod maps;
pub(crate) mod named;
mod operators;
mod optional;
pub(crate) mod quantity;
pub(crate) mod regex;
pub(crate) mod semver;
mod sets;
mod strings;
mod time;
pub(crate) mod url;

use std::collections::HashMap;

use crate::{
    declarations::Implementation,
    error::{EvalError, no_overload},
    value::Value,
};

type Evaluated<'v> = Result<Value<'v>, EvalError>;

/// Overloads with their implementations.
type Table = &'static [(&'static str, Implementation)];

/// Returns the implementations of overloads.
pub(crate) fn overloads() -> HashMap<&'static str, Implementation> {
    let tables: [Table; 13] = [
        cidr::TABLE,
        convert::TABLE,
        format::TABLE,
        ip::TABLE,
        lists::TABLE,
        maps::TABLE,
        named::TABLE,
        optional::TABLE,
        quantity::TABLE,
        regex::TABLE,
        semver::TABLE,
        sets::TABLE,
        strings::TABLE,
    ];
    tables.into_iter().chain([time::TABLE, url::TABLE]).flatten().copied().collect()
}

/// Returns the implementation of a function that all its overloads share.
pub(crate) fn shared(function: &str) -> Option<Implementation> {
    Some(match function {
        "sort" => lists::sort,
        "@sortByAssociatedKeys" => lists::sort_by,
        "matches" => regex::matches,
        "dyn" => convert::identity,
        "type" => convert::type_of,
        name => return operators::implementation(name),
    })
}

/// The error of a function that is called with other arguments than its overloads have.
fn unexpected<'v>() -> Evaluated<'v> {
    no_overload()
}

/// Returns an argument.
fn argument<'a, 'v>(arguments: &'a [Value<'v>], index: usize) -> Result<&'a Value<'v>, EvalError> {
    arguments.get(index).map_or_else(no_overload, Ok)
}

/// Returns an argument that is text.
fn text<'a>(arguments: &'a [Value<'_>], index: usize) -> Result<&'a str, EvalError> {
    argument(arguments, index)?.as_str().map_or_else(no_overload, Ok)
}

/// Returns an argument that is an integer.
fn int(arguments: &[Value<'_>], index: usize) -> Result<i64, EvalError> {
    match argument(arguments, index)? {
        Value::Int(value) => Ok(*value),
        _ => no_overload(),
    }
}

/// Returns an argument that is a list.
fn list<'a, 'v>(arguments: &'a [Value<'v>], index: usize) -> Result<&'a crate::value::List<'v>, EvalError> {
    match argument(arguments, index)? {
        Value::List(list) => Ok(list),
        _ => no_overload(),
    }
}

/// Returns the name of the type of a value that is used as a key or index, where those of objects are Go's own.
pub(crate) fn go_native(value: &Value<'_>) -> &'static str {
    match value {
        Value::List(crate::value::List::Json(_)) => "[]interface {}",
        Value::Map(crate::value::Map::Json(_)) => "map[string]interface {}",
        Value::Null => "<nil>",
        other => go_type(other),
    }
}

/// Returns the name of a value's type in the API server's implementation, which some messages contain.
pub(crate) fn go_type(value: &Value<'_>) -> &'static str {
    match value {
        Value::Null => "types.Null",
        Value::Bool(_) => "types.Bool",
        Value::Int(_) => "types.Int",
        Value::Uint(_) => "types.Uint",
        Value::Double(_) => "types.Double",
        Value::String(_) => "types.String",
        Value::Bytes(_) => "types.Bytes",
        Value::Duration(_) => "types.Duration",
        Value::Timestamp(_) => "types.Timestamp",
        Value::List(_) => "*types.baseList",
        Value::Map(_) => "*types.baseMap",
        Value::Type(_) => "*types.Type",
        Value::Optional(_) => "*types.Optional",
        Value::Quantity(_) => "cel.Quantity",
        Value::Ip(_) => "cel.IP",
        Value::Cidr(_) => "cel.CIDR",
        Value::Url(_) => "cel.URL",
        Value::Semver(_) => "cel.Semver",
        Value::Format(_) => "cel.Format",
        Value::Variables => "*lazy.MapValue",
    }
}
