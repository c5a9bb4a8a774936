//! The meaning of failed lists and watches, and the delay after each.

use std::{collections::BTreeMap, time::Duration};

use kube::core::Status;

use crate::{
    cluster::{backoff::Backoff, error::describe},
    source::json::Malformed,
};

/// A growing delay between attempts. Each class of failures has its own count: a server that has just started refuses
/// for a moment what it allows later, and that refusal must not count as the tenth because the server was unreachable
/// before.
#[derive(Debug, Default)]
pub(super) struct Delay {
    failures: BTreeMap<FailureClass, u32>,
}

/// A class of failures with a common delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum FailureClass {
    Expired,
    Unauthorized,
    Refused,
    Unavailable,
}

impl Delay {
    /// Returns the next delay: half a second to half a minute for failures that may pass soon, five seconds to five
    /// minutes for a clear refusal. A token file is read again within a minute, so a 401 is worth another attempt soon.
    /// An expired version (410) is retried at once, unless it expires again and again.
    pub(super) fn next(&mut self, code: u16) -> Duration {
        let soon = Backoff::between(Duration::from_millis(500), Duration::from_secs(30));
        let (class, backoff) = match code {
            410 => (FailureClass::Expired, soon),
            401 => (FailureClass::Unauthorized, Backoff::SHORT),
            403..=405 => (FailureClass::Refused, Backoff::between(Duration::from_secs(5), Duration::from_mins(5))),
            _ => (FailureClass::Unavailable, soon),
        };
        let failures = self.failures.entry(class).or_default();
        *failures = failures.saturating_add(1);
        if class == FailureClass::Expired && *failures == 1 { Duration::ZERO } else { backoff.after(*failures) }
    }
}

/// Adds a random jitter of up to half the delay, so that requests that failed together are not repeated together.
pub(super) fn jittered(delay: Duration) -> Duration {
    delay.mul_f64(1.0 + fastrand::f64() / 2.0)
}

/// Why a list or a watch failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadFailure {
    /// A list failed, at its start or in the middle.
    #[error("{}", describe(.0))]
    List(kube::Error),
    /// The body of a list is malformed.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The body of a list ended too early.
    #[error("the response ended before the list was complete")]
    Truncated,
    /// A watch did not start.
    #[error("watch: {}", describe(.0))]
    WatchStart(kube::Error),
    /// A watch broke in the middle.
    #[error("watch broken: {}", describe(.0))]
    WatchBroken(kube::Error),
    /// A line of a watch is not an event.
    #[error("watch: the server sent an invalid event: {0}")]
    NoEvent(serde_json::Error),
    /// The server ended a watch with this error.
    #[error("watch: {} ({})", .0.message, .0.code)]
    WatchRefused(Box<Status>),
    /// The server ended a watch right after its start, without an error.
    #[error("watch: the server closed it immediately")]
    WatchShort,
    /// The server's current version is lower than the one that is watched from.
    #[error("the server went back to an earlier state, for example after etcd was restored from a backup")]
    WentBack,
    /// A list or an object has no version from which it could be watched.
    #[error("the server sends objects without resourceVersion")]
    NoResourceVersion,
}

impl ReadFailure {
    /// Returns the HTTP status code; 0 if there is none.
    pub(super) fn code(&self) -> u16 {
        match self {
            Self::List(kube::Error::Api(status))
            | Self::WatchStart(kube::Error::Api(status))
            | Self::WatchRefused(status) => status.code,
            // The known version is useless, as if it had expired.
            Self::WentBack => 410,
            _ => 0,
        }
    }

    /// Whether only a new list helps: watching from the same version would fail in the same way.
    pub(super) fn needs_list(&self) -> bool {
        self.code() == 410 || matches!(self, Self::NoEvent(_) | Self::NoResourceVersion) || self.is_from_the_future()
    }

    /// Whether the server has not reached the version yet: it catches up within seconds, or never if it has lost that
    /// state.
    fn is_from_the_future(&self) -> bool {
        const REASON: &str = "ResourceVersionTooLarge";
        let (Self::WatchStart(kube::Error::Api(status)) | Self::WatchRefused(status)) = self else { return false };
        let causes = status.details.iter().flat_map(|details| &details.causes);
        // As in client-go: servers before 1.19 send no cause.
        causes.into_iter().any(|cause| cause.reason == REASON) || status.message.contains("Too large resource version")
    }

    /// Returns the reason as a metric's label.
    pub(super) fn reason(&self) -> &'static str {
        match self.code() {
            410 => "expired",
            401 | 403 => "forbidden",
            404 => "not_found",
            429 => "throttled",
            500.. => "server_error",
            _ => "connection",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow() {
        let seconds = |code| {
            let mut delay = Delay::default();
            (0..8).map(|_| delay.next(code).as_secs_f64()).collect::<Vec<_>>()
        };
        assert_eq!(seconds(0), [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]);
        assert_eq!(seconds(401), [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0]);
        assert_eq!(seconds(410), [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0], "the first relist waits for nothing");
        assert_eq!(seconds(403), [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]);
    }

    #[test]
    fn each_class_of_failures_has_its_own_delay() {
        let classes: [(&[u16], f64, f64); 4] = [
            (&[0, 429, 500, 503], 0.5, 30.0),
            (&[401], 0.5, 10.0),
            (&[403, 404, 405], 5.0, 300.0),
            (&[410], 0.0, 30.0),
        ];
        for (others, _, longest) in classes {
            let mut delay = Delay::default();
            let last = (0..20).map(|attempt| delay.next(others[attempt % others.len()])).last();
            assert_eq!(last.map(|last| last.as_secs_f64()), Some(longest), "{others:?} grow together");
            for (codes, first, _) in classes.iter().filter(|(codes, ..)| *codes != others) {
                assert_eq!(delay.next(codes[0]), Duration::from_secs_f64(*first), "{} after {others:?}", codes[0]);
            }
        }
        let mut delay = Delay::default();
        let alternating: Vec<_> = [403, 0, 404, 0, 403].map(|code| delay.next(code).as_secs_f64()).into();
        assert_eq!(alternating, [5.0, 0.5, 10.0, 1.0, 20.0], "a class grows although others come between");
    }
}
