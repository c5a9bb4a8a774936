//! Parses expressions with the parser of the crate `cel`, and expands macros.
//!
//! That parser is generated from the grammar that the API server's parser has, so it accepts the same texts and has the
//! same syntax errors. It needs much stack: expressions are parsed on a thread of their own.

mod convert;
mod macros;

use std::thread;

use cel::Env;

use self::convert::Converter;
pub(crate) use self::macros::ACCUMULATOR;
use crate::{ast::CelExpr, error::CompileError};

/// The length of the longest expression, in code points.
const MOST_CODE_POINTS: usize = 100_000;
/// The deepest nesting of operators, selections and calls.
const MOST_DEPTH: u16 = 250;
/// The stack for the longest expression: without optimisation, a thousand operators need up to two megabytes.
const STACK: usize = 256 << 20;

/// An expression, and the number of expressions in it.
pub(crate) struct Parsed {
    pub(crate) expr: CelExpr,
    pub(crate) count: usize,
}

/// Calls a function on a thread with enough stack for every expression.
///
/// # Errors
/// If there is no memory for the stack.
pub(crate) fn on_large_stack<T: Send>(run: impl FnOnce() -> T + Send) -> Result<T, String> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, run);
        let thread = thread.map_err(|error| format!("no thread for the expression: {error}"))?;
        thread.join().map_err(|_| "the expression could not be processed".to_owned())
    })
}

/// Parses an expression; needs a large stack.
///
/// # Errors
/// All syntax errors, or that the expression is too long or too deep.
pub(crate) fn parse(source: &str) -> Result<Parsed, CompileError> {
    let size = source.chars().count();
    if size > MOST_CODE_POINTS {
        let message = format!("expression code point size exceeds limit: size: {size}, limit {MOST_CODE_POINTS}");
        return Err(CompileError::without_position(message));
    }
    // Without macros: those of the crate differ from the API server's.
    let parser = Env::default().parser().max_recursion_depth(MOST_DEPTH);
    let (tree, info) = parser.parse_with_source_info(source).map_err(|errors| refused(&errors))?;
    Converter::new(&info, MOST_DEPTH.into()).convert(tree)
}

fn refused(errors: &cel::ParseErrors) -> CompileError {
    let problems = errors.errors.iter().map(|error| {
        if error.msg.contains("Recursion limit") {
            return too_deep();
        }
        CompileError {
            line: usize::try_from(error.pos.0).unwrap_or(0),
            column: usize::try_from(error.pos.1).unwrap_or(0),
            message: message(&error.msg),
            more: Vec::new(),
        }
    });
    CompileError::joined(problems.collect()).unwrap_or_else(|| CompileError::without_position("not an expression"))
}

/// Returns a message in the API server's words where the parser has its own.
fn message(message: &str) -> String {
    let is_literal = message.starts_with("invalid string literal") || message.starts_with("invalid bytes literal");
    match message {
        _ if is_literal && message.contains("InvalidUnicode") => "invalid unicode code point".to_owned(),
        _ if is_literal => "unable to unescape string".to_owned(),
        other => other.to_owned(),
    }
}

fn too_deep() -> CompileError {
    CompileError::without_position(format!("expression recursion limit exceeded: {MOST_DEPTH}"))
}
