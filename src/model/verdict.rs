//! What judging says about one object.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::object::ObjectKey;

/// How a rule came out for an object. Passes are counted, not listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// `deny`, `violation`, a Gatekeeper constraint with action `deny`.
    Fail,
    /// `warn`, a Gatekeeper constraint with action `warn` or `dryrun`.
    Warn,
    /// The policy could not be evaluated for this object.
    Error,
    /// Excepted.
    Skip,
}

impl Outcome {
    /// The word that stands for it in results.
    pub fn word(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Warn => "warn",
            Self::Error => "error",
            Self::Skip => "skip",
        }
    }

    /// Whether it counts as a violation.
    pub fn is_violation(self) -> bool {
        matches!(self, Self::Fail | Self::Warn)
    }
}

/// Severity as the report APIs define it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names say all")]
pub enum Severity {
    Critical,
    High,
    Medium,
    Low,
    Info,
}

impl Severity {
    /// Reads a severity as policies write it, in any case.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Critical, Self::High, Self::Medium, Self::Low, Self::Info]
            .into_iter()
            .find(|severity| severity.word().eq_ignore_ascii_case(word.trim()))
    }

    /// Returns it as reports write it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
            Self::Info => "info",
        }
    }
}

/// Where a rule stands in a policy file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Source {
    /// The file, relative to where the user named it.
    pub file: Arc<str>,
    /// Line of the rule's head, from 1; for an `error`, the line that failed.
    pub line: u32,
}

/// One result of one rule for one object.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The policy: package path without `data.` (`pod_security.baseline`), or a Constraint's kind.
    pub policy: Arc<str>,
    /// The rule: name of the rule's head (`deny_privileged`), or a Constraint's name.
    pub rule: Arc<str>,
    /// How it came out.
    pub outcome: Outcome,
    /// From METADATA `custom.severity`, or the result's own `severity` key; `None` if neither says.
    pub severity: Option<Severity>,
    /// From METADATA `custom.category`.
    pub category: Option<Arc<str>>,
    /// What is wrong, in the policy's words; for an `error`, what went wrong and where.
    pub message: Arc<str>,
    /// Whatever else the policy gave (keys beside `msg`, or Gatekeeper's `details`); empty if nothing.
    pub details: Option<Arc<serde_json::Map<String, serde_json::Value>>>,
    /// Where the rule stands.
    pub source: Source,
}

/// All results of one object under one policy set. A pure function of the job.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// The object that was judged.
    pub key: ObjectKey,
    /// Its uid.
    pub uid: Arc<str>,
    /// Sorted and without doubles: fail, warn, error and skip.
    pub results: Vec<Finding>,
    /// What the policies say of the transition (`oldObject`, `operation: UPDATE` or `DELETE`) and not of the object as it
    /// is: reported once, never standing.
    pub transitions: Vec<Finding>,
    /// Rules that were evaluated and said nothing.
    pub passed: u32,
    /// The policy set it was judged under.
    pub policies: Digest,
    /// Time that the evaluation took; for metrics only, never shown in results.
    pub took: std::time::Duration,
}

/// SHA-256 of everything that a policy set was loaded from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Digest(pub [u8; 32]);

/// Shows it in hex.
impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
