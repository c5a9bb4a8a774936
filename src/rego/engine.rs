//! regorus' engine with the settings and extensions that every evaluation here needs.

use anyhow::Result;
use regorus::{Engine, PolicyLengthConfig};

use super::{
    builtins,
    limits::{self, Limits},
    rewrite, value,
};

/// Returns an engine with data, for modules of these texts, which are not added yet.
///
/// # Errors
/// Returns regorus' error about the data.
pub(crate) fn with_data(data: serde_json::Value, limits: &Limits, texts: &[&str]) -> Result<Engine> {
    let mut engine = empty(limits);
    builtins::install(&mut engine, limits.strict, texts)?;
    rewrite::install(&mut engine)?;
    engine.add_data(value::from_tree(data)?)?;
    Ok(engine)
}

/// Returns an engine without modules, data and extensions.
pub(crate) fn empty(limits: &Limits) -> Engine {
    let mut engine = Engine::new();
    engine.set_policy_length_config(PolicyLengthConfig { max_col: limits.columns, ..PolicyLengthConfig::default() });
    // As OPA does by default: a builtin that fails is undefined, not the end of the evaluation.
    engine.set_strict_builtin_errors(limits.strict);
    // `print` would write to stderr of the process.
    engine.set_gather_prints(true);
    engine.set_execution_timer_config(limits::timer(limits.evaluation));
    engine
}
