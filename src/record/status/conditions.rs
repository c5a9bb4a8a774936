//! The conditions of the `Audit` object: what each says is a pure function of the overview and of the recorders' health.

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

/// One condition, as the API conventions of Kubernetes have it, without the time.
#[derive(Debug)]
pub(super) struct Condition {
    kind: &'static str,
    /// `None` if it is not known yet: what an earlier process wrote stays then.
    status: Option<bool>,
    reason: &'static str,
    message: String,
}

/// Returns all conditions, in the order in which they are written. There is none about the memory where it has no limit.
pub(super) fn conditions(overview: &Overview, health: &Health, memory: Option<Pressure>) -> Vec<Condition> {
    let always = [
        synced(overview),
        policies_loaded(overview),
        complete(overview),
        recording(health),
        exceptions_valid(overview),
    ];
    always.into_iter().chain(memory.map(memory_pressure)).collect()
}

fn synced(overview: &Overview) -> Condition {
    let (status, reason, message) = if !overview.synced {
        let waiting = covered(overview).filter(|kind| kind.state == State::Syncing).count();
        (false, "Syncing", format!("{waiting} of {} kinds are being read", covered(overview).count()))
    } else if !overview.nothing_found.is_empty() {
        (false, "NothingFound", overview.nothing_found.clone())
    } else {
        (true, "GateOpen", String::new())
    };
    Condition { kind: "Synced", status: Some(status), reason, message }
}

fn policies_loaded(overview: &Overview) -> Condition {
    let (status, reason, message) = match &overview.policy_error {
        Some(why) => {
            let problems = problem::summed_up(&why.problems);
            (false, "LoadFailed", format!("the policies loaded before stay in force: {problems}"))
        }
        None if overview.policies.is_partial() => {
            let problems = problem::summed_up(&overview.policies.problems);
            let others = if overview.policies.policies.is_empty() { "no policy is" } else { "the others are" };
            (false, "PoliciesRefused", format!("{others} in force: {problems}"))
        }
        None if !overview.inventory_error.is_empty() => (false, "InventoryFailed", overview.inventory_error.clone()),
        None => (true, "Loaded", String::new()),
    };
    Condition { kind: "PoliciesLoaded", status: Some(status), reason, message }
}

/// A kind that is not read is named even while the gate is shut: it may be what is waited for.
fn complete(overview: &Overview) -> Condition {
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
    Condition { kind: "Complete", status: Some(overview.synced && overview.complete), reason, message }
}

fn recording(health: &Health) -> Condition {
    let status = health.trouble.is_empty();
    let (reason, message) = if status { ("Recording", &health.note) } else { ("WritesFail", &health.trouble) };
    Condition { kind: "Recording", status: Some(status), reason, message: message.clone() }
}

/// Names the first of each that somebody should look at. One that is about to end is still as it should be. Which exceptions
/// excuse nothing is known when everything was evaluated.
fn exceptions_valid(overview: &Overview) -> Condition {
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
    Condition { kind: "ExceptionsValid", status, reason, message: noted.join("; ") }
}

/// As the condition of a Node, it is true when something is wrong.
fn memory_pressure(pressure: Pressure) -> Condition {
    let reason = if pressure.is_high { "NearLimit" } else { "BelowLimit" };
    let message = if pressure.is_high { pressure.message() } else { String::new() };
    Condition { kind: "MemoryPressure", status: Some(pressure.is_high), reason, message }
}

/// The kinds in scope.
pub(super) fn covered(overview: &Overview) -> impl Iterator<Item = &Coverage> {
    overview.coverage.iter().filter(|kind| kind.state != State::Excluded)
}

/// Since when each condition has its status: `lastTransitionTime`, by type.
#[derive(Debug, Default)]
pub(super) struct ConditionTimes {
    transitions: BTreeMap<&'static str, (bool, String)>,
    /// The conditions that an earlier process wrote, by type.
    earlier: BTreeMap<String, Value>,
}

impl ConditionTimes {
    /// Returns the conditions as they are written; `now` is the time of those whose status changed.
    pub(super) fn stamp(&mut self, conditions: &[Condition], now: Timestamp) -> Vec<Value> {
        let stamped = conditions.iter().filter_map(|Condition { kind, status, reason, message }| {
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

    /// Takes over the conditions of an `Audit` that an earlier process wrote: one whose status is as it was then has not changed
    /// since, also if it has been stamped without knowing that.
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

/// Returns the status of a condition that was written, and since when it has been that.
fn transition(condition: &Value) -> Option<(bool, String)> {
    Some((condition["status"] == "True", condition["lastTransitionTime"].as_str()?.to_owned()))
}

#[cfg(test)]
mod tests;
