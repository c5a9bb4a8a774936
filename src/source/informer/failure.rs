//! What a failed list or watch means, and how long to wait after it.

use std::time::Duration;

use kube::runtime::watcher;

use crate::cluster::{backoff::Backoff, error::describe};

/// A growing delay between attempts; kube's own begins again with each attempt to list.
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

/// Returns the HTTP code of an error (0 if there is none) and its reason as a metric's label.
pub(super) fn classify(error: &watcher::Error) -> (u16, &'static str) {
    let code = match error {
        watcher::Error::WatchError(status) => status.code,
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => match error {
            kube::Error::Api(status) => status.code,
            _ => 0,
        },
        watcher::Error::NoResourceVersion => 0,
    };
    let reason = match code {
        410 => "expired",
        401 | 403 => "forbidden",
        404 => "not_found",
        429 => "throttled",
        500.. => "server_error",
        _ => "connection",
    };
    (code, reason)
}

/// Says what failed.
pub(super) fn describe_watch(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error) => describe(error),
        watcher::Error::WatchStartFailed(error) => format!("watch: {}", describe(error)),
        watcher::Error::WatchFailed(error) => format!("watch broken: {}", describe(error)),
        watcher::Error::WatchError(status) => format!("watch: {} ({})", status.message, status.code),
        watcher::Error::NoResourceVersion => "the server sends objects without resourceVersion".to_owned(),
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
