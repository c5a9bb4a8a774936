//! Reads what earlier runs recorded, and gives up after a while: a recorder whose records cannot be read must not keep
//! the others waiting.

use std::time::Duration;

use kube::Client;
use tokio::time::{Instant, sleep};
use tracing::{debug, warn};

use crate::{
    cluster::{backoff::Backoff, error::describe},
    metrics::Metrics,
    record::failure::WriteFailure,
};

/// Reading is given up after this time and this many failures.
const LONGEST: Duration = Duration::from_secs(30);
const FAILURES: u32 = 2;

/// How long after the first refusal records count as unreadable: an API server that has just started refuses for a
/// moment what it allows later, or does not serve the kind yet. It is less than the time for which reading is tried.
const REFUSED_AFTER: Duration = Duration::from_secs(20);

/// When the server first refused to list records.
#[derive(Debug, Default)]
pub(super) struct Refusals(Option<Instant>);

impl Refusals {
    /// Notes the failure of an attempt; returns whether it is a refusal.
    pub(super) fn note(&mut self, error: &kube::Error) -> bool {
        let is_refusal = WriteFailure::of(error) != WriteFailure::Later;
        if is_refusal {
            self.0.get_or_insert_with(Instant::now);
        }
        is_refusal
    }

    /// Whether refusals have lasted long enough to count.
    pub(super) fn have_lasted(&self, attempts: Attempts) -> bool {
        attempts == Attempts::One || self.0.is_some_and(|since| since.elapsed() >= REFUSED_AFTER)
    }
}

/// How often reading is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempts {
    /// As long as the server cannot be reached, and then for [`LONGEST`]: nothing can be recorded without the server.
    Patient,
    /// For [`LONGEST`] in any case, for runs that end.
    Limited,
    One,
}

/// Reads what one recorder wrote in earlier runs.
pub struct EarlierRecords<'a> {
    pub(super) client: &'a Client,
    pub(super) metrics: &'a Metrics,
    /// The name of the recorder, as in metrics.
    pub(super) recorder: &'static str,
    pub(super) attempts: Attempts,
}

impl EarlierRecords<'_> {
    /// Retries until reading succeeds or is given up.
    ///
    /// # Errors
    /// The last failure, if reading was given up.
    pub(super) async fn read<T>(&self, mut read: impl AsyncFnMut() -> kube::Result<T>) -> Result<T, String> {
        let (mut failures, mut refusals) = (0, 0);
        let mut limit = Instant::now() + LONGEST;
        loop {
            let error = match read().await {
                Ok(found) => return Ok(found),
                Err(error) => error,
            };
            let why = describe(&error);
            failures += 1;
            self.failed(&why, failures);
            if self.attempts == Attempts::One {
                return Err(why);
            }
            let answers = matches!(error, kube::Error::Api(_)) || self.client.apiserver_version().await.is_ok();
            if answers || self.attempts == Attempts::Limited {
                refusals += 1;
            } else {
                (refusals, limit) = (0, Instant::now() + LONGEST);
            }
            if refusals >= FAILURES && Instant::now() >= limit {
                return Err(why);
            }
            sleep(Backoff::SHORT.after(failures)).await;
        }
    }

    fn failed(&self, why: &str, failures: u32) {
        let recorder = self.recorder;
        self.metrics.recorder_retries(recorder);
        if failures == 1 && self.attempts != Attempts::One {
            warn!(recorder, "Records of earlier runs cannot be read yet, retrying: {why}");
        } else {
            debug!(recorder, "Records of earlier runs cannot be read: {why}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::Body as Answer;
    use http::{Request, Response};
    use kube::{client::Body, core::Status};

    use super::*;

    /// A server whose version can be read if it is `up`.
    fn client(up: bool) -> Client {
        let answer = move |_: Request<Body>| async move {
            let version = r#"{"major":"1","minor":"36","gitVersion":"","gitCommit":"","gitTreeState":"","buildDate":"","goVersion":"","compiler":"","platform":""}"#;
            let code = if up { 200 } else { 503 };
            Ok::<_, Infallible>(Response::builder().status(code).body(Answer::from(version)).unwrap())
        };
        Client::new(tower::service_fn(answer), "default")
    }

    fn refusal() -> kube::Error {
        kube::Error::Api(Box::new(Status { code: 500, message: "the webhook is down".to_owned(), ..Status::default() }))
    }

    fn disconnected() -> kube::Error {
        kube::Error::Service(std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into())
    }

    /// Returns after how many seconds reading ended, and its result; reading succeeds from `works` seconds on.
    async fn after(up: bool, attempts: Attempts, error: fn() -> kube::Error, works: u64) -> (u64, Result<(), String>) {
        let begin = Instant::now();
        let read = async || {
            // A request takes its time.
            sleep(Duration::from_millis(100)).await;
            if begin.elapsed().as_secs() >= works { Ok(()) } else { Err(error()) }
        };
        let (client, metrics) = (client(up), Metrics::default());
        let records = EarlierRecords { client: &client, metrics: &metrics, recorder: "events", attempts };
        let outcome = records.read(read).await;
        let retries = "kaudit_recorder_retries_total{recorder=\"events\"}";
        assert!(metrics.encode().lines().any(|line| line.starts_with(retries) && !line.ends_with(" 0")));
        (begin.elapsed().as_secs(), outcome)
    }

    #[tokio::test(start_paused = true)]
    async fn reading_is_given_up_when_refused_and_retried_while_the_server_is_unreachable() {
        for attempts in [Attempts::Patient, Attempts::Limited] {
            let (seconds, outcome) = after(true, attempts, refusal, 10).await;
            assert!(outcome.is_ok() && (10..20).contains(&seconds), "{seconds}");
            for error in [refusal, disconnected] {
                let (seconds, outcome) = after(true, attempts, error, u64::MAX).await;
                assert!(outcome.is_err() && (30..45).contains(&seconds), "{attempts:?}: {seconds} {outcome:?}");
            }
        }
        let (seconds, outcome) = after(false, Attempts::Patient, disconnected, 600).await;
        assert!(outcome.is_ok() && seconds >= 600, "{seconds}");
        let (seconds, outcome) = after(false, Attempts::Limited, disconnected, u64::MAX).await;
        assert!(outcome.is_err() && seconds < 45, "{seconds}");
        let (seconds, outcome) = after(true, Attempts::One, refusal, u64::MAX).await;
        assert!(outcome.is_err() && seconds == 0, "{seconds}");
    }
}
