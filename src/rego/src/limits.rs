//! Limits that keep a policy from hanging, crashing or overflowing the process, and the versions of the language.

use std::{fmt, time::Duration};

use serde::Serialize;

/// A version of the language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Version {
    /// Of OPA before 1.0: `deny[msg] { … }`; `if`, `contains`, `in` and `every` need an import.
    V0,
    /// Of OPA 1.0 and later: `deny contains msg if { … }`.
    V1,
}

/// Shows `v0` or `v1`.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::V0 { "v0" } else { "v1" })
    }
}

/// What policies may take of time and memory, and how complex they may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// CPU time for one evaluation: all rules of a query, or one rule where they are evaluated one by one.
    pub evaluation: Duration,
    /// CPU time for all evaluations of one input; those that did not begin by then fail.
    pub input: Duration,
    /// Whether verdicts are shared between objects that look the same to the policies.
    pub share_verdicts: bool,
    /// Whether a builtin that fails makes the rule an error, instead of being undefined.
    pub strict: bool,
    /// Largest policy or data file.
    pub file_bytes: u64,
    /// The files of one source: those of local paths and the library.
    pub source: SourceLimits,
    /// The files of one bundle or `ConfigMap`, or of Gatekeeper's objects.
    pub foreign_source: SourceLimits,
    /// Bytes of stack that evaluation may need, as estimated; threads that evaluate must have twice as
    /// much.
    pub stack: usize,
    /// The largest value that an evaluation may have, in bytes when written out.
    pub value_bytes: usize,
    /// How many levels of collections in collections a value may get, as estimated: it is compared and dropped by recursion.
    pub levels: usize,
}

/// What the files of one source may hold. It is estimated from their texts before they are parsed, as parsed they take a
/// hundred times as much memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceLimits {
    /// Values in data and objects.
    pub values: usize,
    /// Words, other characters and lines of modules without tests.
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
    /// Returns the limits of rules that judge many objects by one evaluation.
    #[must_use]
    pub fn of_array(&self) -> Self {
        Self { evaluation: self.input, value_bytes: self.value_bytes * 16, ..*self }
    }
}
