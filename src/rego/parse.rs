//! Adds modules to an engine, each in its language version, and turns regorus' errors into problems.

use std::panic::{AssertUnwindSafe, catch_unwind};

use regorus::{
    Engine,
    unstable::{Source, Token},
};

use super::{
    error::PolicyError,
    file::{Declared, File},
    limits::{Limits, Version},
    problem::Problem,
    rewrite::Rewritten,
    syntax::{Position, SyntaxError},
    tokens,
};

/// Adds one module to the engine, as the rewriter wrote it.
///
/// # Errors
/// Returns what is wrong. For a module that the rewriter could not read that is regorus' own error; of its attempts at both
/// versions, the one that got further is what the author meant.
pub(crate) fn add(
    engine: &mut Engine,
    file: &File,
    rewritten: &Result<Rewritten, SyntaxError>,
    limits: &Limits,
) -> Result<(), Problem> {
    let tokens = checked(file, &file.text, limits)?;
    let unreadable = match rewritten {
        Ok(rewritten) => {
            // What the rewriter made of it may be too complex where the source was not.
            checked(file, &rewritten.text, limits)?;
            return attempt(engine, file, &rewritten.text, rewritten.version);
        }
        Err(unreadable) => unreadable,
    };
    let Position { line, column } = unreadable.at;
    let refused = Problem::refused(&file.shown, unreadable.why.as_str()).at(&file.text, line, column);
    if let Some(help) = unreadable.help {
        return Err(refused.help(help));
    }
    if let Some(Declared { version: Version::V0, by, help }) = file.declared
        && tokens::needs_v1(&tokens)
    {
        return Err(Problem::refused(&file.shown, format!("this is Rego v1, but {by} takes it for v0")).help(help));
    }
    // In a copy, only for its error: what OPA refuses must not be loaded, even if regorus accepts it.
    let engine = &mut engine.clone();
    let first = attempt(engine, file, &file.text, file.version().unwrap_or(Version::V1));
    let second = if first.is_ok() || file.version().is_some() || tokens::needs_v1(&tokens) {
        first.clone()
    } else {
        attempt(engine, file, &file.text, Version::V0)
    };
    match (first, second) {
        (Err(first), Err(second)) if (second.line, second.column) > (first.line, first.column) => Err(second),
        (Err(first), Err(_)) => Err(first),
        // OPA would refuse it.
        _ => Err(refused),
    }
}

/// Returns the tokens of a text that may be given to the parser.
fn checked(file: &File, text: &str, limits: &Limits) -> Result<Vec<Token>, Problem> {
    let source =
        Source::from_contents(file.shown.to_string(), text.to_owned()).map_err(|error| problem(file, &error))?;
    let tokens = tokens::read(&source, limits);
    tokens::too_complex(file, &tokens, limits).map_or(Ok(tokens), Err)
}

fn attempt(engine: &mut Engine, file: &File, text: &str, version: Version) -> Result<(), Problem> {
    engine.set_rego_v0(version == Version::V0);
    // A parser that panics must not end the process; a module is pushed only after it was parsed, so the engine is
    // as it was.
    let added = catch_unwind(AssertUnwindSafe(|| engine.add_policy(file.shown.to_string(), text.to_owned())));
    match added {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(problem(file, &error)),
        Err(_) => Err(Problem::refused(&file.shown, "the parser failed on this file")),
    }
}

/// Turns an error of regorus about a file into a problem.
pub(crate) fn problem(file: &File, error: &anyhow::Error) -> Problem {
    let PolicyError { place, reason } = PolicyError::new(error);
    let place = place.map(|(_, line, column)| (line, column));
    // Some reasons begin with their place instead: `file:line:column error: …`.
    let (place, reason) = match reason.strip_prefix(&format!("{}:", file.shown)).and_then(placed) {
        Some((found, rest)) => (place.or(Some(found)), rest),
        None => (place, reason.as_str()),
    };
    let problem = Problem::refused(&file.shown, reason);
    match place {
        Some((line, column)) => problem.at(&file.text, line, column),
        None => problem,
    }
}

/// Reads `line:column reason`.
fn placed(text: &str) -> Option<((u32, u32), &str)> {
    let (place, reason) = text.split_once(' ')?;
    let (line, column) = place.split_once(':')?;
    let reason = reason.strip_prefix("error").map_or(reason, |rest| rest.trim_start_matches([':', ' ']));
    Some(((line.parse().ok()?, column.trim_end_matches(':').parse().ok()?), reason))
}
