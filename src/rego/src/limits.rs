//! Limits that keep a policy from hanging or crashing the process or overflowing its stack, and the versions of the
//! language.

use std::{fmt, time::Duration};

use serde::Serialize;

/// A version of Rego.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Version {
    /// Rego before OPA 1.0: `deny[msg] { … }`; `if`, `contains`, `in` and `every` need an import.
    V0,
    /// Rego since OPA 1.0: `deny contains msg if { … }`.
    V1,
}

/// Formats as `v0` or `v1`.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::V0 { "v0" } else { "v1" })
    }
}

/// Limits on the time, memory and complexity of policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// CPU time of one evaluation: all rules of a query, or one rule if rules are evaluated individually.
    pub evaluation: Duration,
    /// CPU time of all evaluations of one input; those not started by then fail.
    pub input: Duration,
    /// Whether results are shared between objects that are equal in everything that the policies read.
    pub share_verdicts: bool,
    /// Whether a failing builtin makes the rule an error instead of being undefined.
    pub strict: bool,
    /// The largest policy or data file, in bytes.
    pub file_bytes: u64,
    /// The limits on the files of one source, for local paths and the library.
    pub source: SourceLimits,
    /// The limits on the files of one source, for a bundle, a `ConfigMap`, and the Gatekeeper objects.
    pub foreign_source: SourceLimits,
    /// The estimated stack that evaluation may need, in bytes; threads that evaluate must have twice as much.
    pub stack: usize,
    /// The largest value of an evaluation, in bytes when written out.
    pub value_bytes: usize,
    /// The estimated nesting depth of a value: values are compared and dropped recursively.
    pub levels: usize,
}

/// Limits on the files of one source. They are estimated from the text before parsing, as parsed files take a hundred
/// times as much memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceLimits {
    /// The number of values in data and objects.
    pub values: usize,
    /// The number of words, other characters and lines in modules that are not tests.
    pub tokens: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            evaluation: Duration::from_secs(1),
            input: Duration::from_secs(5),
            share_verdicts: true,
            strict: false,
            file_bytes: 1 << 20,
            source: SourceLimits { values: 2_000_000, tokens: 4_000_000 },
            foreign_source: SourceLimits { values: 500_000, tokens: 600_000 },
            stack: 1 << 20,
            value_bytes: 4 << 20,
            levels: 20_000,
        }
    }
}

impl Limits {
    /// Returns the limits of rules that evaluate many objects together.
    #[must_use]
    pub fn of_array(&self) -> Self {
        Self { evaluation: self.input, value_bytes: self.value_bytes * 16, ..*self }
    }
}
