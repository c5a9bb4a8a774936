//! The functions of the environment.

pub(crate) mod cidr;
pub(crate) mod convert;
pub(crate) mod floats;
pub(crate) mod format;
pub(crate) mod image;
pub(crate) mod ip;
mod kyverno;
pub(crate) mod limits;
mod lists;
pub(crate) mod lookup;
pub(crate) mod maps;
pub(crate) mod named;
mod operators;
mod optional;
pub(crate) mod quantity;
pub(crate) mod regex;
pub(crate) mod semver;
mod sets;
mod strings;
pub(crate) mod time;
pub(crate) mod url;

use std::collections::HashMap;

use crate::{
    declarations::Implementation,
    error::{EvalError, no_overload},
    value::CelValue,
};

/// The result of an operation or a function.
pub(crate) type EvaluatedValue<'v> = Result<CelValue<'v>, EvalError>;

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
    tables.into_iter().chain([time::TABLE, url::TABLE, image::TABLE, kyverno::TABLE]).flatten().copied().collect()
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
fn unexpected<'v>() -> EvaluatedValue<'v> {
    no_overload()
}

/// Returns an argument.
fn argument<'a, 'v>(arguments: &'a [CelValue<'v>], index: usize) -> Result<&'a CelValue<'v>, EvalError> {
    arguments.get(index).map_or_else(no_overload, Ok)
}

/// Returns an argument that is text.
fn text<'a>(arguments: &'a [CelValue<'_>], index: usize) -> Result<&'a str, EvalError> {
    argument(arguments, index)?.as_str().map_or_else(no_overload, Ok)
}

/// Returns an argument that is an integer.
fn int(arguments: &[CelValue<'_>], index: usize) -> Result<i64, EvalError> {
    match argument(arguments, index)? {
        CelValue::Int(value) => Ok(*value),
        _ => no_overload(),
    }
}

/// Returns an argument that is a list.
fn list<'a, 'v>(arguments: &'a [CelValue<'v>], index: usize) -> Result<&'a crate::value::CelList<'v>, EvalError> {
    match argument(arguments, index)? {
        CelValue::List(list) => Ok(list),
        _ => no_overload(),
    }
}

/// Returns the name of the type of a value that is used as a key or index, where those of objects are Go's own.
pub(crate) fn go_native(value: &CelValue<'_>) -> &'static str {
    match value {
        CelValue::List(crate::value::CelList::Json(_)) => "[]interface {}",
        CelValue::Map(crate::value::Map::Json(_)) => "map[string]interface {}",
        CelValue::Null => "<nil>",
        other => go_type(other),
    }
}

/// Returns the name of a value's type in the API server's implementation, which some messages contain.
pub(crate) fn go_type(value: &CelValue<'_>) -> &'static str {
    match value {
        CelValue::Null => "types.Null",
        CelValue::Bool(_) => "types.Bool",
        CelValue::Int(_) => "types.Int",
        CelValue::Uint(_) => "types.Uint",
        CelValue::Double(_) => "types.Double",
        CelValue::String(_) => "types.String",
        CelValue::Bytes(_) => "types.Bytes",
        CelValue::Duration(_) => "types.Duration",
        CelValue::Timestamp(_) => "types.Timestamp",
        CelValue::List(_) => "*types.baseList",
        CelValue::Map(_) => "*types.baseMap",
        CelValue::Type(_) => "*types.Type",
        CelValue::Optional(_) => "*types.Optional",
        CelValue::Quantity(_) => "cel.Quantity",
        CelValue::Ip(_) => "cel.IP",
        CelValue::Cidr(_) => "cel.CIDR",
        CelValue::Url(_) => "cel.URL",
        CelValue::Semver(_) => "cel.Semver",
        CelValue::Format(_) => "cel.Format",
        CelValue::Image(_) => "image.Image",
        CelValue::Variables => "*lazy.MapValue",
    }
}
