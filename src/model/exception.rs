//! Exceptions: why a violation is excused, and how it stands with what excuses it.

use std::{fmt, sync::Arc};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Why something that a rule found is no violation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Excuse {
    /// The exception, as `namespace/name` or `name`, or `baseline`.
    pub by: Arc<str>,
    /// In the words of whoever excused it; empty for a baseline.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub reason: Arc<str>,
    /// When it is a violation again; `None` if that is not set.
    #[serde(rename = "expiresAt", skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
}

impl Excuse {
    /// The excuse of what stands in the baseline.
    pub fn baseline() -> Self {
        Self { by: "baseline".into(), reason: "".into(), expires: None }
    }

    /// Whether it is that: exceptions have an end.
    pub fn is_baseline(&self) -> bool {
        self.expires.is_none()
    }
}

/// Shows it as a part of a sentence.
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

/// How it stands with an exception.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ExceptionState {
    /// It excuses something.
    Active,
    /// It does, and ends within two weeks.
    Expiring,
    /// It excuses nothing.
    Unused,
    /// It has ended.
    Expired,
    /// It cannot be read, names what is not there, or excuses what it may not.
    Invalid,
}

impl ExceptionState {
    /// Every state, for metrics that have a series for each.
    pub const ALL: [Self; 5] = [Self::Active, Self::Expiring, Self::Unused, Self::Expired, Self::Invalid];

    /// Returns the reason of the condition in the status of a `PolicyException`; an invalid one has that of its problem.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Active => "Active",
            Self::Expiring => "Expiring",
            Self::Unused => "Unused",
            Self::Expired => "Expired",
            Self::Invalid => "Invalid",
        }
    }

    /// Returns the word for it in JSON, metrics and the status.
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
