//! What a pipeline publishes while it runs.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;

use super::{exceptions::ExceptionSummary, result::Summary};
use crate::{
    judge::set::PolicySet,
    model::{coverage::Coverage, verdict::Severity},
    rego::LoadError,
};

/// The progress of the initial sync and of the evaluation, for readiness and the progress bar.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// The gate is open.
    pub open: bool,
    /// Watch scopes that are complete or given up on.
    pub scopes_done: usize,
    /// Watch scopes known so far.
    pub scopes: usize,
    /// The first few of those that the gate still waits for.
    pub waiting_for: Vec<String>,
    /// Objects waiting for evaluation.
    pub queue: usize,
}

impl Progress {
    /// Whether all known objects have been evaluated.
    pub fn is_settled(&self) -> bool {
        self.open && self.queue == 0
    }
}

#[cfg(test)]
impl Overview {
    /// An overview of an audit in which everything is read and evaluated, without results.
    pub(crate) fn sample(policies: PolicySet) -> Self {
        Self {
            synced: true,
            evaluated: true,
            complete: true,
            summary: Summary::default(),
            exceptions: vec![],
            coverage: vec![],
            policies: Arc::new(policies),
            policies_since: None,
            by_severity: BTreeMap::new(),
            by_policy: BTreeMap::new(),
            policy_error: None,
            inventory_error: String::new(),
            nothing_found: String::new(),
        }
    }
}

/// Counts and coverage, for the `Audit` object; cheap compared to the whole result.
#[derive(Debug, Clone)]
pub struct Overview {
    /// The gate is open.
    pub synced: bool,
    /// Everything that existed at the start has been evaluated.
    pub evaluated: bool,
    /// Everything in scope was read, and every policy was evaluated.
    pub complete: bool,
    /// Results by outcome.
    pub summary: Summary,
    /// Coverage by kind.
    pub coverage: Vec<Coverage>,
    /// The policies in force.
    pub policies: Arc<PolicySet>,
    /// When they replaced others; `None` for those of the start.
    pub policies_since: Option<Timestamp>,
    /// Open violations of each severity; `None` counts those without one.
    pub by_severity: BTreeMap<Option<Severity>, usize>,
    /// Fail, warn and error of each policy.
    pub by_policy: BTreeMap<Arc<str>, [usize; 3]>,
    /// The exceptions.
    pub exceptions: Vec<ExceptionSummary>,
    /// Why the newest policies are not in force, if they are not.
    pub policy_error: Option<LoadError>,
    /// Why policies cannot look up other objects; empty if they can.
    pub inventory_error: String,
    /// Where no object was found; empty if there is one everywhere.
    pub nothing_found: String,
}
