//! The status that an exception should have: a pure function of its summary and its present status.

use jiff::{SignedDuration, Timestamp};

use crate::{
    audit::exceptions::{ExceptionObject, ExceptionStatus, ExceptionSummary, NOTICE},
    model::{exception::ExceptionState, text::truncate},
};

/// Longest message of a condition, in bytes.
const MESSAGE_BYTES: usize = 1_024;
const DAY: i64 = 24;

/// Returns the status, given the one that the object has. With time alone, only the days left change.
pub(super) fn wanted(
    summary: &ExceptionSummary,
    object: &ExceptionObject,
    present: Option<&ExceptionStatus>,
    now: Timestamp,
) -> ExceptionStatus {
    let (accepted, message) = condition(summary);
    let unchanged = present.filter(|present| present.accepted == accepted);
    let transition = unchanged.map_or_else(|| format!("{now:.0}"), |present| present.transition.clone());
    let left = summary.expires_at.map(|end| end.duration_since(now));
    let days_left =
        left.filter(|left| *left > SignedDuration::ZERO && *left < NOTICE).map(|left| left.as_hours() / DAY);
    ExceptionStatus {
        accepted,
        reason: summary.reason_word().to_owned(),
        message: truncate(&message, MESSAGE_BYTES).to_owned(),
        observed_generation: object.generation.unwrap_or_default(),
        transition,
        results: summary.results,
        expires_at: summary.expires_at.map(|end| format!("{end:.0}")),
        days_left,
    }
}

/// Returns status and message of the condition `Accepted`.
fn condition(summary: &ExceptionSummary) -> (bool, String) {
    let in_force = |message: &str| {
        let refused = match summary.refused_rules {
            0 => String::new(),
            number => format!("{number} of its rules cannot be excused by a namespace"),
        };
        let texts = [message, &refused].into_iter().filter(|text| !text.is_empty());
        (true, texts.collect::<Vec<_>>().join("; "))
    };
    match summary.state {
        ExceptionState::Active => in_force(""),
        ExceptionState::Expiring => in_force("expires within two weeks"),
        ExceptionState::Unused => in_force("no violation matches it"),
        ExceptionState::Expired => (false, summary.message.clone()),
        ExceptionState::Invalid => (false, summary.sentence()),
    }
}
