//! Text to syntax tree: the language version of each file, and regorus' errors in plain words.

use std::panic::{AssertUnwindSafe, catch_unwind};

use regorus::{
    Engine, PolicyLengthConfig,
    unstable::{Module, Ref, Source, Token},
};

use super::{
    error::EngineError,
    file::File,
    guard,
    limits::{Limits, Version},
    problem::Problem,
    rewrite::{Adapted, Place, Unreadable},
};

/// Adds one module to the engine, as the adapter wrote it.
///
/// # Errors
/// Returns what is wrong. Of a module that the adapter could not read, what the evaluator says of it; of its attempts at
/// both versions, the one that got further is what the author meant.
pub(crate) fn add(
    engine: &mut Engine,
    file: &File,
    adapted: &Result<Adapted, Unreadable>,
    limits: &Limits,
) -> Result<(), Problem> {
    let tokens = checked(file, &file.text, limits)?;
    let unreadable = match adapted {
        Ok(adapted) => {
            // What was written out may be too much where the source was not.
            checked(file, &adapted.text, limits)?;
            return attempt(engine, file, &adapted.text, adapted.version);
        }
        Err(unreadable) => unreadable,
    };
    let Place { line, column } = unreadable.at;
    let refused = Problem::refused(&file.shown, unreadable.why.as_str()).at(&file.text, line, column);
    if let Some(help) = unreadable.help {
        return Err(refused.help(help));
    }
    if file.version == Some(Version::V0) && guard::needs_v1(&tokens) {
        let help = "put it under code with engine: Rego and version: v1, or import future.keywords";
        return Err(Problem::refused(&file.shown, "this is Rego v1, but the template takes it for v0").help(help));
    }
    // Only to hear what it says: what OPA does not take must not stay, even if the evaluator takes it.
    let engine = &mut engine.clone();
    let first = attempt(engine, file, &file.text, file.version.unwrap_or(Version::V1));
    let second = if first.is_ok() || file.version.is_some() || guard::needs_v1(&tokens) {
        first.clone()
    } else {
        attempt(engine, file, &file.text, Version::V0)
    };
    match (first, second) {
        (Err(first), Err(second)) if (second.line, second.column) > (first.line, first.column) => Err(second),
        (Err(first), Err(_)) => Err(first),
        // OPA would not take it.
        _ => Err(refused),
    }
}

/// Returns the tokens of a text that may be given to the parser.
fn checked(file: &File, text: &str, limits: &Limits) -> Result<Vec<Token>, Problem> {
    let source =
        Source::from_contents(file.shown.to_string(), text.to_owned()).map_err(|error| problem(file, &error))?;
    let tokens = guard::tokens(&source, limits);
    guard::refuse(file, &tokens, limits).map_or(Ok(tokens), Err)
}

/// Makes an engine with the settings that every unit shares, without policies.
pub(crate) fn engine(limits: &Limits) -> Engine {
    let mut engine = Engine::new();
    engine.set_policy_length_config(PolicyLengthConfig { max_col: limits.columns, ..PolicyLengthConfig::default() });
    // What OPA does unless it is told to be strict: a builtin that fails is undefined, not the end of the evaluation.
    engine.set_strict_builtin_errors(limits.strict);
    // `print` would write into kaudit's own stderr.
    engine.set_gather_prints(true);
    engine.set_execution_timer_config(limits.timer());
    engine
}

/// Returns the syntax tree that was added last.
pub(crate) fn last_module(engine: &mut Engine) -> Option<Ref<Module>> {
    engine.get_modules().last().cloned()
}

fn attempt(engine: &mut Engine, file: &File, text: &str, version: Version) -> Result<(), Problem> {
    engine.set_rego_v0(version == Version::V0);
    // A parser that panics must not take kaudit with it; a module is pushed only after it was parsed, so the engine is
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
    let EngineError { place, reason } = EngineError::new(error);
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
