//! regorus' engine, which parses modules.

use regorus::{Engine, PolicyLengthConfig};

use super::limits::Limits;

/// Returns an engine without modules.
pub(crate) fn empty(limits: &Limits) -> Engine {
    let mut engine = Engine::new();
    engine.set_policy_length_config(PolicyLengthConfig { max_col: limits.columns, ..PolicyLengthConfig::default() });
    engine
}
