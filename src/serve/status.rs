//! `/status`: the whole result as JSON, cached while nothing changes.
//!
//! Only one request at a time queries the pipeline, and requests that arrive in the meantime get the same response. So
//! any number of concurrent requests cost at most two queries. The pipeline only copies its state; sorting and
//! serializing happen on a blocking thread.

use std::{sync::Arc, time::Duration};

use axum::body::Bytes;
use tokio::{
    sync::{Mutex, OwnedMutexGuard, mpsc},
    time::{Instant, sleep, timeout_at},
};

use crate::{
    audit::command::{Command, Snapshot, ask},
    blocking::spawn_blocking,
    output::safe::write_json,
};

/// How long a response is cached after the last request; a large one takes a considerable part of kaudit's memory.
const KEEP: Duration = Duration::from_secs(10);

/// The response to `/status`.
#[derive(Debug)]
pub struct Status {
    pipeline: mpsc::Sender<Command>,
    kept: Arc<Mutex<Option<CachedStatus>>>,
}

/// The cached response.
#[derive(Debug)]
struct CachedStatus {
    revision: u64,
    /// When the pipeline was queried for this revision.
    queried: Instant,
    json: Bytes,
}

impl Status {
    /// Creates a status that queries this pipeline.
    pub fn new(pipeline: mpsc::Sender<Command>) -> Self {
        Self { pipeline, kept: Arc::default() }
    }

    /// Returns the result as of this call or later; `None` if the pipeline has stopped or takes longer than `patience`.
    pub(super) async fn json(&self, patience: Duration) -> Option<Bytes> {
        let began = Instant::now();
        let mut kept = timeout_at(began + patience, Arc::clone(&self.kept).lock_owned()).await.ok()?;
        if let Some(kept) = kept.as_ref().filter(|kept| kept.queried >= began) {
            return Some(kept.json.clone());
        }
        let queried = Instant::now();
        let answer = ask(&self.pipeline, kept.as_ref().map(|kept| kept.revision));
        let (revision, json) = match (timeout_at(began + patience, answer).await.ok()??, kept.take()) {
            (Some(Snapshot { revision, mut result, .. }), _) => {
                let json = spawn_blocking(move || {
                    result.sort();
                    let mut json = Vec::new();
                    write_json(&mut json, &result).ok().map(|()| Bytes::from(json))
                });
                (revision, json.await.ok()??)
            }
            (None, Some(known)) => (known.revision, known.json),
            (None, None) => return None,
        };
        *kept = Some(CachedStatus { revision, queried, json: json.clone() });
        self.forget_later(kept, queried);
        Some(json)
    }

    /// Drops the cached response if there is no further request for [`KEEP`].
    fn forget_later(&self, kept: OwnedMutexGuard<Option<CachedStatus>>, queried: Instant) {
        drop(kept);
        let kept = Arc::clone(&self.kept);
        tokio::spawn(async move {
            sleep(KEEP).await;
            let mut kept = kept.lock().await;
            if kept.as_ref().is_some_and(|kept| kept.queried == queried) {
                *kept = None;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{command::ResultQuery, result::AuditResult};

    /// Answers with the given revision; returns the number of queries, and of results that had to be created.
    fn pipeline(mut commands: mpsc::Receiver<Command>, revision: u64) -> tokio::task::JoinHandle<(usize, usize)> {
        tokio::spawn(async move {
            let (mut queried, mut made) = (0, 0);
            while let Some(Command::Result(ResultQuery { known, answer })) = commands.recv().await {
                queried += 1;
                // Let all concurrent requests arrive.
                tokio::task::yield_now().await;
                let result = || AuditResult::sample(7);
                let is_newer = known != Some(revision);
                let snapshot = is_newer.then(|| Snapshot { revision, changed: None, result: result() });
                made += usize::from(snapshot.is_some());
                assert!(answer.send(snapshot).is_ok());
            }
            (queried, made)
        })
    }

    const PATIENCE: Duration = Duration::from_mins(1);

    #[tokio::test]
    async fn concurrent_requests_cost_at_most_two_queries() {
        let (sender, commands) = mpsc::channel(1);
        let (status, pipeline) = (Status::new(sender), pipeline(commands, 3));
        let answers = futures::future::join_all((0..20).map(|_| status.json(PATIENCE))).await;
        let first = answers[0].clone().unwrap();
        assert!(answers.iter().all(|answer| answer.as_ref() == Some(&first)));
        assert!(String::from_utf8_lossy(&first).contains("\"objects\":7"), "{first:?}");
        drop(status);
        let (queried, made) = pipeline.await.unwrap();
        assert!(queried <= 2 && made == 1, "{queried} {made}");
    }

    #[tokio::test]
    async fn an_unchanged_result_is_serialized_once() {
        let (sender, commands) = mpsc::channel(1);
        let (status, pipeline) = (Status::new(sender), pipeline(commands, 3));
        for _ in 0..5 {
            assert!(status.json(PATIENCE).await.is_some());
        }
        drop(status);
        assert_eq!(pipeline.await.unwrap(), (5, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn the_cached_answer_is_dropped_without_requests() {
        let (sender, commands) = mpsc::channel(1);
        let (status, _pipeline) = (Status::new(sender), pipeline(commands, 3));
        assert!(status.json(PATIENCE).await.is_some());
        sleep(KEEP * 2).await;
        assert!(status.kept.lock().await.is_none());
    }

    #[tokio::test]
    async fn a_silent_pipeline_times_out() {
        let (sender, commands) = mpsc::channel(1);
        let status = Status::new(sender);
        assert_eq!(status.json(Duration::from_millis(10)).await, None);
        // The channel is full now, so the query cannot even be sent.
        assert_eq!(status.json(Duration::from_millis(10)).await, None);
        drop(commands);
        assert_eq!(status.json(PATIENCE).await, None);
    }
}
