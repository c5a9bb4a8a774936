//! Builtins: which exist, which are refused, and those that are kaudit's own, because the evaluator has them not, answers
//! otherwise than OPA, or panics or hangs on some arguments.
//!
//! A builtin of ours is a plain function of its arguments, in the tables of the modules below; an extension of the engine
//! comes before the evaluator's builtin of its name.

#![allow(clippy::unnecessary_wraps, reason = "every builtin has the type of those that can fail")]
#![allow(clippy::format_push_string, reason = "a few bytes of a pattern that is then compiled")]

pub(crate) mod budget;
mod cidr;
mod collections;
mod digests;
mod encoding;
mod format;
mod globs;
mod gofloat;
mod known;
mod natives;
mod numbers;
mod operators;
pub(crate) mod regexes;
mod replacer;
mod text;
mod times;
mod units;
mod uri;

use std::{fmt, sync::LazyLock};

use anyhow::Result;
use regorus::{
    Engine, Value,
    unstable::{BUILTINS, Expr, Ref, Source, Span},
};

use super::error::EngineError;

pub(crate) use self::known::{Arity, find, nearest, unsupported};

/// A builtin of ours: its name, how many arguments it takes, and what it does.
type Builtin = (&'static str, u8, fn(&[Value]) -> Answer);

/// The value of a call.
type Answer = Result<Value, Fault>;

/// All builtins of ours.
const TABLES: &[&[Builtin]] = &[
    cidr::TABLE,
    collections::TABLE,
    digests::TABLE,
    encoding::TABLE,
    format::TABLE,
    globs::TABLE,
    numbers::TABLE,
    operators::TABLE,
    regexes::TABLE,
    replacer::TABLE,
    text::TABLE,
    times::TABLE,
    units::TABLE,
    uri::TABLE,
];

/// Why a call has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fault {
    /// What OPA calls a builtin error: the call is undefined, unless evaluation is strict.
    Failed(String),
    /// It would take more than there is, or what OPA does cannot be had: an error in any case, so that nobody takes it for
    /// undefined.
    Refused(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(why) | Self::Refused(why) => f.write_str(why),
        }
    }
}

/// A builtin error.
fn failed<T>(why: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Failed(why.into()))
}

/// A limit that is reached.
fn refused<T>(why: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Refused(why.into()))
}

/// Adds those builtins of ours, and those of the evaluator that are measured, that modules of these texts can call; `strict` makes each builtin error the end of the
/// evaluation.
///
/// Only those, because an engine is cloned with all its extensions for every question. Whoever calls a builtin spells its
/// last name.
pub(crate) fn install(engine: &mut Engine, strict: bool, texts: &[&str]) -> Result<()> {
    let called = |name: &str| {
        let last = name.rsplit('.').next().unwrap_or(name);
        texts.iter().any(|text| text.contains(last))
    };
    for &(name, arity, function) in all().filter(|(name, ..)| called(name)) {
        add(engine, name, arity, strict, function)?;
    }
    for (name, arity) in natives::all().filter(|(name, _)| called(name)) {
        add(engine, name, arity, strict, move |arguments: &[Value]| natives::call(name, arguments))?;
    }
    Ok(())
}

fn all() -> impl Iterator<Item = &'static Builtin> {
    TABLES.iter().copied().flatten()
}

fn add(
    engine: &mut Engine,
    name: &'static str,
    arity: u8,
    strict: bool,
    function: impl Fn(&[Value]) -> Answer + Clone + Send + Sync + 'static,
) -> Result<()> {
    let measured = move |arguments: &[Value]| {
        let made = function(arguments)?;
        budget::charge(name, &made)?;
        Ok(made)
    };
    let call = move |arguments: Vec<Value>| match measured(&arguments) {
        Err(Fault::Failed(_)) if !strict => Ok(Value::Undefined),
        answer => answer.map_err(|fault| anyhow::anyhow!("{fault}")),
    };
    engine.add_extension(name.to_owned(), arity, Box::new(call))
}

/// Calls the evaluator's own builtin.
fn native(name: &str, arguments: &[Value]) -> Answer {
    // Builtins want the places of call and arguments for their messages.
    static PLACES: LazyLock<Option<(Span, Vec<Ref<Expr>>)>> = LazyLock::new(|| {
        let source = Source::from_contents("builtin".to_owned(), "builtin".to_owned()).ok()?;
        let span = Span { source, line: 1, col: 1, start: 0, end: 0 };
        let place = |_| Ref::new(Expr::Null { span: span.clone(), value: Value::Null, eidx: 0 });
        let places = (0..8).map(place).collect();
        Some((span, places))
    });
    let (Some((builtin, _)), Some((span, places))) = (BUILTINS.get(name), PLACES.as_ref()) else {
        return refused(format!("{name} is not available"));
    };
    let places = places.get(..arguments.len()).unwrap_or_default();
    builtin(span, places, arguments, true).map_err(|error| {
        let limit = error.downcast_ref::<regorus::LimitError>().is_some();
        let why = EngineError::new(&error).reason;
        if limit { Fault::Refused(why) } else { Fault::Failed(why) }
    })
}

/// The name of a value's type, as OPA's messages have it.
fn kind(value: &Value) -> &'static str {
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

/// The fault of an argument (counted from one) of another type.
fn wrong_type<T>(operand: usize, wanted: &str, got: &Value) -> Result<T, Fault> {
    failed(format!("operand {operand} must be {wanted} but got {}", kind(got)))
}

/// Returns an argument that must be a string.
fn string(arguments: &[Value], index: usize) -> Result<&str, Fault> {
    match &arguments[index] {
        Value::String(text) => Ok(text),
        other => wrong_type(index + 1, "string", other),
    }
}

/// Returns an argument that must be a whole number; one that no `i64` holds becomes the nearest that does.
fn integer(arguments: &[Value], index: usize) -> Result<i64, Fault> {
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
fn array(arguments: &[Value], index: usize) -> Result<impl Iterator<Item = &Value>, Fault> {
    match &arguments[index] {
        Value::Array(items) => Ok(items.iter()),
        other => wrong_type(index + 1, "array", other),
    }
}

/// Returns the items of an array or of a set, in order.
fn items(value: &Value) -> Option<Vec<&Value>> {
    match value {
        Value::Array(items) => Some(items.iter().collect()),
        Value::Set(items) => Some(items.iter().collect()),
        _ => None,
    }
}

/// Returns a value, if all that it holds can be gone through.
pub(crate) fn bounded(value: Value) -> Result<Value> {
    budget::check_whole("walk or print", &value).map_err(|fault| anyhow::anyhow!("{fault}"))?;
    Ok(value)
}
