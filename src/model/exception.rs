//! Exceptions: why a violation is excused, and the state of an exception.

use std::{fmt, sync::Arc};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The name that results in a baseline are excused by.
const BASELINE: &str = "baseline";
/// The prefix of the names of Kyverno's exceptions; none of kaudit's own can have such a name.
const KYVERNO: &str = "kyverno:";
/// The prefix of the names of exceptions for system components; a `PolicyException` cannot have such a name.
const SYSTEM: &str = "system:";

/// Why the result of a rule is excused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Excuse {
    /// The exception, as `namespace/name` or `name`, or `baseline`, or `system:` and the name of a component, or `kyverno:`
    /// and an exception of Kyverno.
    pub by: Arc<str>,
    /// The reason given in the exception; empty for a baseline.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub reason: Arc<str>,
    /// When the excuse ends and the result is a violation again; `None` if it does not end.
    #[serde(rename = "expiresAt", skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
}

impl Excuse {
    /// Returns the excuse of results in the baseline.
    pub fn baseline() -> Self {
        Self { by: BASELINE.into(), reason: "".into(), expires: None }
    }

    /// Returns the excuse of a component of the cluster's distribution.
    pub(crate) fn system(component: &str, reason: Arc<str>) -> Self {
        Self { by: format!("{SYSTEM}{component}").into(), reason, expires: None }
    }

    /// Returns the excuse of an exception of Kyverno, as `namespace/name`.
    pub(crate) fn kyverno(exception: &str, reason: &str, expires: Option<Timestamp>) -> Self {
        Self { by: format!("{KYVERNO}{exception}").into(), reason: reason.into(), expires }
    }

    /// Whether it is part of the evaluation of a policy, rather than applied to its results.
    pub(crate) fn is_of_policy(&self) -> bool {
        self.by.starts_with(KYVERNO)
    }

    /// Whether it is that of the baseline, which does not end; exceptions of people always do.
    pub fn is_baseline(&self) -> bool {
        self.expires.is_none() && &*self.by == BASELINE
    }

    /// Whether it is that of a system component.
    pub fn is_system(&self) -> bool {
        self.expires.is_none() && self.by.starts_with(SYSTEM)
    }
}

/// Shows the excuse as a part of a sentence.
impl fmt::Display for Excuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "excused by {}", self.by)?;
        if let Some(expires) = self.expires {
            write!(f, " until {expires:.0}")?;
        }
        if self.reason.is_empty() { Ok(()) } else { write!(f, ": {}", self.reason) }
    }
}

/// Why an exception is not in force, or only in part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExceptionProblem {
    /// Its specification cannot be read.
    Unreadable,
    /// It names a rule that is not in force.
    UnknownRule,
    /// It names rules that a namespace may not excuse.
    NotExcusable,
    /// It ends later than is allowed.
    EndsTooLate,
}

impl ExceptionProblem {
    /// Returns the reason of the condition in the status.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Unreadable => "Unreadable",
            Self::UnknownRule => "UnknownRule",
            Self::NotExcusable => "NotExcusable",
            Self::EndsTooLate => "EndsTooLate",
        }
    }
}

/// The state of an exception.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ExceptionState {
    /// It excuses results.
    Active,
    /// It excuses results, and ends within two weeks.
    Expiring,
    /// It excuses nothing.
    Unused,
    /// It has ended.
    Expired,
    /// It has a problem, and is not in force or only in part.
    Invalid,
}

impl ExceptionState {
    /// Every state, for metrics that have a series for each.
    pub const ALL: [Self; 5] = [Self::Active, Self::Expiring, Self::Unused, Self::Expired, Self::Invalid];

    /// Returns the condition reason in the status of a `PolicyException`; an invalid one has that of its problem.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Active => "Active",
            Self::Expiring => "Expiring",
            Self::Unused => "Unused",
            Self::Expired => "Expired",
            Self::Invalid => "Invalid",
        }
    }

    /// Returns its name in JSON, metrics and the status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Expiring => "expiring",
            Self::Unused => "unused",
            Self::Expired => "expired",
            Self::Invalid => "invalid",
        }
    }
}
