//! Regular expressions in Go's syntax.

use std::{cell::RefCell, collections::HashMap};

use ::regex::Regex;
use kaudit_rego::builtins::regexes;

use super::{EvaluatedValue, Table, argument, int, text};
use crate::{
    error::{EvalError, failed, no_overload},
    value::CelValue,
};

pub(super) const TABLE: Table = &[
    ("string_find_string", |values| find(&pattern(values)?, values)),
    ("string_find_all_string", |values| find_all(&pattern(values)?, values)),
    ("string_find_all_string_int", |values| find_all(&pattern(values)?, values)),
];

/// The number of compiled expressions that a thread keeps.
const KEPT: usize = 100;

thread_local! {
    static COMPILED: RefCell<HashMap<Box<str>, Regex>> = RefCell::default();
}

/// Compiles a pattern.
///
/// # Errors
/// Why the pattern is invalid.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    regexes::in_go_syntax(pattern).map_err(|error| in_go_words(pattern, &error))
}

/// Returns a message of the crate `regex` as Go has it.
fn in_go_words(pattern: &str, error: &str) -> String {
    if error.starts_with("error parsing regexp: ") {
        return error.to_owned();
    }
    let reason = error.rsplit_once("error: ").map_or(error, |(_, reason)| reason).trim();
    let reason = match reason {
        "unclosed group" => "missing closing )",
        "unopened group" => "unexpected )",
        "repetition operator missing expression" => "missing argument to repetition operator",
        "unclosed character class" => "missing closing ]",
        other => other,
    };
    format!("error parsing regexp: {reason}: `{pattern}`")
}

/// Returns a compiled pattern that is only known in evaluation.
fn compiled(pattern: &str) -> Result<Regex, String> {
    if let Some(known) = COMPILED.with_borrow(|compiled| compiled.get(pattern).cloned()) {
        return Ok(known);
    }
    let regex = compile(pattern)?;
    COMPILED.with_borrow_mut(|compiled| {
        if compiled.len() >= KEPT {
            compiled.clear();
        }
        compiled.insert(pattern.into(), regex.clone());
    });
    Ok(regex)
}

fn pattern(values: &[CelValue<'_>]) -> Result<Regex, EvalError> {
    compiled(text(values, 1)?).or_else(|error| failed(format!("Illegal regex: {error}")))
}

pub(super) fn matches<'v>(values: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    let CelValue::String(text) = argument(values, 0)? else {
        return match argument(values, 0)? {
            CelValue::Duration(_) | CelValue::Timestamp(_) => no_overload(),
            _ => failed("no such overload: matches"),
        };
    };
    let regex = compiled(super::text(values, 1)?).or_else(failed)?;
    Ok(CelValue::Bool(regex.is_match(text)))
}

/// Calls a function with a constant pattern.
pub(crate) fn constant<'v>(function: &str, regex: &Regex, values: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    match function {
        "find" => find(regex, values),
        "findAll" => find_all(regex, values),
        _ => Ok(CelValue::Bool(regex.is_match(text(values, 0)?))),
    }
}

fn find<'v>(regex: &Regex, values: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    Ok(regex.find(text(values, 0)?).map_or("", |found| found.as_str()).into())
}

fn find_all<'v>(regex: &Regex, values: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    let most = match values.get(2) {
        Some(_) => usize::try_from(int(values, 2)?).unwrap_or(usize::MAX),
        None => usize::MAX,
    };
    let found = regex.find_iter(text(values, 0)?).take(most);
    Ok(CelValue::from(found.map(|found| found.as_str().into()).collect::<Vec<_>>()))
}
