//! What keeps one policy from doing harm, and the versions of the language.

use std::{fmt, num::NonZeroU32, time::Duration};

use regorus::utils::limits::ExecutionTimerConfig;
use serde::Serialize;

/// A version of the language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names say all")]
pub enum Version {
    V0,
    V1,
}

/// Shows `v0` or `v1`.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::V0 { "v0" } else { "v1" })
    }
}

/// What keeps one policy from doing harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Time for one evaluation of one object, and for each rule of it when they are evaluated one by one.
    pub evaluation: Duration,
    /// Time for one object in all; what was not evaluated by then is an error.
    pub object: Duration,
    /// Whether a builtin that fails makes the rule an error, instead of being undefined.
    pub strict: bool,
    /// Largest policy or data file.
    pub file_bytes: u64,
    /// Longest line of a module.
    pub columns: NonZeroU32,
    /// Deepest nesting of brackets.
    pub nesting: usize,
    /// How often the parser may try a bracket; doubles with each level of brackets in brackets.
    pub bracket_tries: u64,
    /// Highest tree of operators and brackets in one expression.
    pub height: usize,
    /// Bytes of stack that evaluation may need, as estimated; threads that call [`crate::judge::evaluate::evaluate`] must have
    /// twice as much.
    pub stack: usize,
    /// How many levels of collections in collections a value may get, as estimated: it is compared and dropped by recursion.
    pub levels: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            evaluation: Duration::from_secs(1),
            object: Duration::from_secs(5),
            strict: false,
            file_bytes: 1 << 20,
            columns: NonZeroU32::new(20_000).unwrap_or(NonZeroU32::MAX),
            nesting: 32,
            bracket_tries: 250_000,
            height: 250,
            stack: 1 << 20,
            levels: 20_000,
        }
    }
}

impl Limits {
    pub(super) fn timer(&self) -> ExecutionTimerConfig {
        // A look at the clock every 16 steps costs nothing that can be measured.
        ExecutionTimerConfig { limit: self.evaluation, check_interval: NonZeroU32::new(16).unwrap_or(NonZeroU32::MIN) }
    }
}
