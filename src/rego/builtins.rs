//! Builtins: which exist, which are refused, and those that are implemented here, because regorus lacks them, answers
//! differently from OPA, or panics or hangs on some arguments.
//!
//! A builtin of ours is a plain function of its arguments, in the tables of the modules below; an extension of the engine
//! comes before regorus' builtin of its name.

#![expect(clippy::unnecessary_wraps, reason = "every builtin has the type of those that can fail")]
#![expect(clippy::format_push_string, reason = "a few bytes of a pattern that is then compiled")]

pub(crate) mod budget;
mod call;
mod callee;
mod cidr;
mod collections;
mod decimals;
pub(crate) mod declarations;
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
pub(crate) mod results;
mod text;
mod times;
mod units;
mod uri;
mod yaml_writer;

use anyhow::Result;
use regorus::{Engine, Value};

use self::{
    call::{Answer, Fault},
    known::all,
};
pub(crate) use self::{
    callee::Callee,
    globs::glob,
    known::{Arity, find, nearest, unsupported},
    operators::{is_member, is_pair},
};

/// Adds the builtins that modules of these texts can call: ours, and those of regorus that are measured; `strict` makes each
/// builtin error end the evaluation.
///
/// Only those, because an engine is cloned with all its extensions for every evaluation. A text that calls a builtin contains
/// the last part of its name.
pub(crate) fn install(engine: &mut Engine, strict: bool, texts: &[&str]) -> Result<()> {
    let called = |name: &str| {
        let last = name.rsplit('.').next().unwrap_or(name);
        texts.iter().any(|text| text.contains(last))
    };
    for &(name, arity, function) in all().filter(|(name, ..)| called(name)) {
        let function = if name == "sprintf" { format::sprintf_by_regorus } else { function };
        add(engine, name, arity, strict, function)?;
    }
    for (name, arity) in natives::all().filter(|(name, _)| called(name)) {
        add(engine, name, arity, strict, move |arguments: &[Value]| natives::call(name, arguments))?;
    }
    Ok(())
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

/// Returns a value, if all that it holds can be gone through.
pub(crate) fn bounded(value: Value) -> Result<Value> {
    budget::check_whole("walk or print", &value).map_err(|fault| anyhow::anyhow!("{fault}"))?;
    Ok(value)
}
