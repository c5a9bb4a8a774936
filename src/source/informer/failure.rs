//! What a failed list or watch means, and how long to wait after it.

use std::time::Duration;

use kube::core::Status;

use crate::{
    cluster::{backoff::Backoff, error::describe},
    source::json::Malformed,
};

/// A growing delay between attempts.
#[derive(Debug, Default)]
pub(super) struct Delay {
    failures: u32,
}

impl Delay {
    /// Half a second to half a minute for what may pass soon, five seconds to five minutes for a clear refusal. A token
    /// file is read again within a minute, so what was refused for an old token is soon worth another attempt. That a version
    /// has expired is no failure as long as it does not happen again and again.
    pub(super) fn next(&mut self, code: u16) -> Duration {
        let backoff = match code {
            410 if self.failures == 0 => Backoff::between(Duration::ZERO, Duration::ZERO),
            401 => Backoff::SHORT,
            403..=405 => Backoff::between(Duration::from_secs(5), Duration::from_mins(5)),
            _ => Backoff::between(Duration::from_millis(500), Duration::from_secs(30)),
        };
        self.failures = self.failures.saturating_add(1);
        backoff.after(self.failures)
    }
}

/// Adds up to half of it to a delay, so that what failed together is not tried again together.
pub(super) fn jittered(delay: Duration) -> Duration {
    delay.mul_f64(1.0 + fastrand::f64() / 2.0)
}

/// Why a list or a watch failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// A list, at its start or in the middle.
    #[error("{}", describe(.0))]
    List(kube::Error),
    /// The body of a list.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The body of a list ended too early.
    #[error("the answer ends in the middle")]
    Truncated,
    /// A watch did not begin.
    #[error("watch: {}", describe(.0))]
    WatchStart(kube::Error),
    /// A watch ended in the middle.
    #[error("watch broken: {}", describe(.0))]
    WatchBroken(kube::Error),
    /// A line of a watch is no event.
    #[error("watch: the server sends what is no event: {0}")]
    NoEvent(serde_json::Error),
    /// The server ended a watch with these words.
    #[error("watch: {} ({})", .0.message, .0.code)]
    WatchRefused(Box<Status>),
    /// The server ended a watch at once, and without a word.
    #[error("watch: the server ended it as soon as it had begun")]
    WatchShort,
    /// Without a version nothing can be watched.
    #[error("the server sends objects without resourceVersion")]
    NoResourceVersion,
}

impl Failure {
    /// Returns the HTTP code; 0 if there is none.
    pub(super) fn code(&self) -> u16 {
        match self {
            Self::List(kube::Error::Api(status))
            | Self::WatchStart(kube::Error::Api(status))
            | Self::WatchRefused(status) => status.code,
            _ => 0,
        }
    }

    /// Whether only a new list helps: watching from the same version would fail in the same way.
    pub(super) fn needs_list(&self) -> bool {
        self.code() == 410 || matches!(self, Self::NoEvent(_) | Self::NoResourceVersion)
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
}
