//! The summary of one exception that all outputs share: its state, and a message about problems.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::status::ExceptionObject;
use crate::model::{
    exception::{ExceptionProblem, ExceptionState},
    object::Location,
};

/// One exception.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExceptionSummary {
    /// `namespace/name`, or `name`.
    pub name: String,
    /// Whether it applies, and whether it needs attention.
    pub state: ExceptionState,
    /// The reason that its author gave.
    pub reason: Arc<str>,
    /// When it ends; `None` if it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Results that it excuses.
    pub results: usize,
    /// Its file and line, if it was read from a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<Location>,
    /// What is wrong with it, or when it ends; empty if there is nothing to say.
    pub message: String,
    /// Why it is `invalid`.
    #[serde(skip)]
    pub problem: Option<ExceptionProblem>,
    /// How many of the rules that it names a namespace may not excuse.
    #[serde(skip)]
    pub refused_rules: usize,
    /// Its object, if it is one of the cluster.
    #[serde(skip)]
    pub object: Option<Arc<ExceptionObject>>,
}

impl ExceptionSummary {
    /// Returns its namespace, if it has one.
    pub fn namespace(&self) -> Option<&str> {
        self.name.split_once('/').map(|(namespace, _)| namespace)
    }

    /// Whether there is something to say about it: it does not apply, or it ends soon.
    pub fn needs_attention(&self) -> bool {
        !self.message.is_empty()
    }

    /// Returns its message as the rest of a sentence about it; for an invalid exception that says whether it is in force.
    pub fn sentence(&self) -> String {
        match self.state {
            ExceptionState::Invalid if self.is_of_files() => self.message.clone(),
            ExceptionState::Invalid if self.results > 0 => format!("is in force only in part: {}", self.message),
            ExceptionState::Invalid => format!("is not in force: {}", self.message),
            _ => self.message.clone(),
        }
    }

    /// Whether it represents the files of `--exceptions`, which could not be loaded.
    pub fn is_of_files(&self) -> bool {
        self.object.is_none() && self.problem == Some(ExceptionProblem::Unreadable)
    }

    /// Returns the reason of the condition in the status of its object.
    pub fn reason_word(&self) -> &'static str {
        self.problem.map_or(self.state.reason(), ExceptionProblem::reason)
    }
}
