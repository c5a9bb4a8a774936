//! Decides when a team gets an Event about its exception: when it is not in force, ends within two weeks, or has ended.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::{
    audit::exceptions::{ExceptionObject, ExceptionSummary, NOTICE},
    model::exception::ExceptionState,
    record::event_reasons,
};

/// A notice to the team that owns an exception.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExceptionNotice {
    pub(crate) object: Arc<ExceptionObject>,
    /// The reason of the Event.
    pub(crate) reason: &'static str,
    /// Equal for equal notices, also after a restart: a part of the name of the Event.
    pub(crate) identity: String,
    pub(crate) note: String,
    pub(crate) at: Timestamp,
}

/// What an Event was about: its reason, and [`ExceptionNotice::identity`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReportedNotice(&'static str, String);

/// Returns the notice that is due about an exception, and stores it in `reported`. A notice that an earlier process
/// reported is not due again when its Event may have expired (`ttl`); before that, the name of the Event prevents a
/// second one.
pub(super) fn due(
    summary: &ExceptionSummary,
    object: &Arc<ExceptionObject>,
    reported: &mut Option<ReportedNotice>,
    (now, ttl): (Timestamp, SignedDuration),
) -> Option<ExceptionNotice> {
    let end = || summary.expires_at.map_or_else(String::new, |end| format!(" at {end:.0}"));
    let again = "its violations are reported again";
    let (reason, note) = match summary.state {
        ExceptionState::Invalid => (event_reasons::EXCEPTION_INVALID, summary.sentence()),
        ExceptionState::Expiring => (event_reasons::EXCEPTION_EXPIRING, format!("ends{}: {again} then", end())),
        ExceptionState::Expired => (event_reasons::EXCEPTION_EXPIRED, format!("ended{}: {again}", end())),
        ExceptionState::Active | ExceptionState::Unused => {
            *reported = None;
            return None;
        }
    };
    let identity = format!("{} {}", summary.reason_word(), object.generation.unwrap_or_default());
    let notice = ReportedNotice(reason, identity.clone());
    if reported.replace(notice.clone()) == Some(notice) {
        return None;
    }
    let before = object.status.as_ref().filter(|status| {
        let is_same = status.reason == summary.reason_word();
        is_same && Some(status.observed_generation) == object.generation
    });
    let began = match summary.state {
        ExceptionState::Expiring => summary.expires_at.and_then(|end| end.checked_sub(NOTICE).ok()),
        ExceptionState::Expired => summary.expires_at,
        _ => before.and_then(|status| status.transition.parse().ok()),
    };
    let is_old = began.is_some_and(|began| now.duration_since(began) > ttl);
    if before.is_some() && is_old {
        return None;
    }
    Some(ExceptionNotice { object: Arc::clone(object), reason, identity, note, at: now })
}
