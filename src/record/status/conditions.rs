//! The conditions of the `Audit` object: each is a pure function of the overview and of the recorders' health.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    audit::{exceptions::ExceptionSummary, overview::Overview},
    model::{
        coverage::{Coverage, State},
        exception::ExceptionState,
        text::truncate,
    },
    record::{health::Health, memory::Pressure},
    rego::problem,
};

/// Longest message, in bytes. The API convention's limit is 32 KiB; a status is no place for a page of parse errors.
const MESSAGE_BYTES: usize = 2_000;

/// One condition of the Kubernetes API conventions, without the time.
#[derive(Debug)]
pub(super) struct AuditCondition {
    kind: &'static str,
    /// `None` if it is not known yet: then the condition of an earlier process is kept.
    status: Option<bool>,
    reason: &'static str,
    message: String,
}

/// Returns all conditions, in the order in which they are written. The one about memory is left out where there is no
/// limit.
pub(super) fn conditions(overview: &Overview, health: &Health, memory: Option<Pressure>) -> Vec<AuditCondition> {
    let always = [
        synced(overview),
        policies_loaded(overview),
        complete(overview),
        recording(health),
        exceptions_valid(overview),
    ];
    always.into_iter().chain(memory.map(memory_pressure)).collect()
}

fn synced(overview: &Overview) -> AuditCondition {
    let (status, reason, message) = if !overview.synced {
        let waiting = covered(overview).filter(|kind| kind.state == State::Syncing).count();
        (false, "Syncing", format!("{waiting} of {} kinds are being read", covered(overview).count()))
    } else if !overview.nothing_found.is_empty() {
        (false, "NothingFound", overview.nothing_found.clone())
    } else {
        (true, "GateOpen", String::new())
    };
    AuditCondition { kind: "Synced", status: Some(status), reason, message }
}

fn policies_loaded(overview: &Overview) -> AuditCondition {
    let (status, reason, message) = match &overview.policy_error {
        Some(why) => {
            let problems = problem::summary(&why.problems);
            (false, "LoadFailed", format!("the policies loaded before stay in force: {problems}"))
        }
        None if overview.policies.is_partial() => {
            let problems = problem::summary(&overview.policies.problems);
            let others = if overview.policies.policies.is_empty() { "no policy is" } else { "the others are" };
            (false, "PoliciesRefused", format!("{others} in force: {problems}"))
        }
        None if !overview.inventory_error.is_empty() => (false, "InventoryFailed", overview.inventory_error.clone()),
        None => (true, "Loaded", String::new()),
    };
    AuditCondition { kind: "PoliciesLoaded", status: Some(status), reason, message }
}

/// A kind that is not read is named even before the gate opens: the gate may wait for it.
fn complete(overview: &Overview) -> AuditCondition {
    let gaps: Vec<&Coverage> = covered(overview).filter(|kind| kind.is_gap()).collect();
    let errors = overview.summary.error;
    let (reason, message) = if let Some(kind) = gaps.first() {
        let (number, state) = (gaps.len(), kind.state.as_str());
        ("KindsNotRead", format!("{number} kinds are not covered, among them {} ({state})", kind.resource))
    } else if errors > 0 {
        ("PolicyErrors", format!("{errors} evaluations failed"))
    } else if overview.policies.is_partial() {
        let message = match overview.policies.refused_files().len() {
            _ if overview.policies.policies.is_empty() => "no policy is in force".to_owned(),
            1 => "1 policy file is not in force".to_owned(),
            files => format!("{files} policy files are not in force"),
        };
        ("PoliciesRefused", message)
    } else if !overview.nothing_found.is_empty() {
        ("NothingFound", overview.nothing_found.clone())
    } else {
        ("AllRead", String::new())
    };
    let reason = if overview.synced { reason } else { "Syncing" };
    AuditCondition { kind: "Complete", status: Some(overview.synced && overview.complete), reason, message }
}

fn recording(health: &Health) -> AuditCondition {
    let status = health.trouble.is_empty();
    let (reason, message) = if status { ("Recording", &health.note) } else { ("WritesFail", &health.trouble) };
    AuditCondition { kind: "Recording", status: Some(status), reason, message: message.clone() }
}

/// Names the exceptions that need attention. One that is about to end does not make the condition false. Which
/// exceptions excuse nothing is only known when everything was evaluated.
fn exceptions_valid(overview: &Overview) -> AuditCondition {
    let exceptions: &[ExceptionSummary] = &overview.exceptions;
    let wrong = [
        (ExceptionState::Invalid, "Invalid"),
        (ExceptionState::Expired, "Expired"),
        (ExceptionState::Unused, "Unused"),
    ];
    let noted: Vec<String> =
        [ExceptionState::Invalid, ExceptionState::Expired, ExceptionState::Unused, ExceptionState::Expiring]
            .into_iter()
            .flat_map(|state| exceptions.iter().filter(move |exception| exception.state == state))
            .map(|exception| format!("{} {}", exception.name, exception.sentence()))
            .collect();
    let reason = wrong.iter().find(|(state, _)| exceptions.iter().any(|exception| exception.state == *state));
    let (status, reason) = reason.map_or((true, "Valid"), |(_, reason)| (false, *reason));
    let status = overview.evaluated.then_some(status);
    AuditCondition { kind: "ExceptionsValid", status, reason, message: noted.join("; ") }
}

/// Like that of a Node, the condition is true when something is wrong.
fn memory_pressure(pressure: Pressure) -> AuditCondition {
    let reason = if pressure.is_high { "NearLimit" } else { "BelowLimit" };
    let message = if pressure.is_high { pressure.message() } else { String::new() };
    AuditCondition { kind: "MemoryPressure", status: Some(pressure.is_high), reason, message }
}

/// The kinds in scope.
pub(super) fn covered(overview: &Overview) -> impl Iterator<Item = &Coverage> {
    overview.coverage.iter().filter(|kind| kind.state != State::Excluded)
}

/// The time since when each condition has its status: `lastTransitionTime`, by type.
#[derive(Debug, Default)]
pub(super) struct ConditionTimes {
    transitions: BTreeMap<&'static str, (bool, String)>,
    /// The conditions that an earlier process wrote, by type.
    earlier: BTreeMap<String, Value>,
}

impl ConditionTimes {
    /// Returns the conditions as they are written; `now` is the time of those whose status changed.
    pub(super) fn stamp(&mut self, conditions: &[AuditCondition], now: Timestamp) -> Vec<Value> {
        let stamped = conditions.iter().filter_map(|AuditCondition { kind, status, reason, message }| {
            let earlier = self.earlier.get(*kind);
            let Some(status) = *status else { return earlier.cloned() };
            let now = || now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            let transition = self
                .transitions
                .entry(kind)
                .or_insert_with(|| earlier.and_then(transition).unwrap_or_else(|| (status, now())));
            if transition.0 != status {
                *transition = (status, now());
            }
            let (status, message) = (if status { "True" } else { "False" }, truncate(message, MESSAGE_BYTES));
            Some(json!({"type": kind, "status": status, "reason": reason, "message": message,
                "lastTransitionTime": transition.1}))
        });
        stamped.collect()
    }

    /// Takes over the conditions of an `Audit` that an earlier process wrote: one with the same status has not changed
    /// since, even if it was stamped before they were read.
    pub(super) fn adopt(&mut self, before: &Value) {
        for condition in before.as_array().into_iter().flatten() {
            let (Some(kind), Some(earlier)) = (condition["type"].as_str(), transition(condition)) else { continue };
            if let Some(known) = self.transitions.get_mut(kind).filter(|known| known.0 == earlier.0) {
                *known = earlier;
            }
            self.earlier.insert(kind.to_owned(), condition.clone());
        }
    }
}

/// Returns the status of a written condition, and since when it has that status.
fn transition(condition: &Value) -> Option<(bool, String)> {
    Some((condition["status"] == "True", condition["lastTransitionTime"].as_str()?.to_owned()))
}

#[cfg(test)]
mod tests;
