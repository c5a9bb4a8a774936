//! The threads that judge: batches of jobs go out, verdicts come back.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use tokio::task::{JoinError, JoinSet};
use tracing::error;

use super::panics::panic_text;
use crate::{
    blocking::{parallelism, spawn_blocking_in},
    judge::{
        evaluate::{Job, evaluate_shared, failed},
        sharing::SharedVerdicts,
    },
    model::{object::ObjectVersion, verdict::Verdict},
};

/// Objects in one batch: enough that the hand-over costs nothing, few enough that a change does not wait.
const BATCH: usize = 32;

type Evaluate = fn(&Job, &SharedVerdicts) -> Verdict;

/// Blocking threads that evaluate objects, at most as many as the process may use cores.
#[derive(Debug)]
pub(crate) struct Judges {
    batches: JoinSet<Vec<Evaluated>>,
    most: usize,
    shared: Arc<SharedVerdicts>,
    /// Evaluates one object; another function in tests.
    pub(crate) evaluate: Evaluate,
}

/// A verdict, and what it is about.
#[derive(Debug)]
pub(crate) struct Evaluated {
    pub(crate) verdict: Verdict,
    /// The state of the object that was evaluated.
    pub(crate) state: Option<ObjectVersion>,
    /// The verdict is about the object's deletion and not about its present state.
    pub(crate) deleted: bool,
}

impl Default for Judges {
    fn default() -> Self {
        Self { batches: JoinSet::new(), most: parallelism(), shared: Arc::default(), evaluate: evaluate_shared }
    }
}

impl Judges {
    /// Whether a thread is free for another batch.
    pub(crate) fn are_free(&self) -> bool {
        self.batches.len() < self.most
    }

    /// Returns how many of the `waiting` jobs to put into a batch: few while there are few, so that every thread gets some.
    pub(crate) fn batch(&self, waiting: usize) -> usize {
        (waiting / self.most).clamp(1, BATCH)
    }

    /// Evaluates a batch on a thread of its own.
    pub(crate) fn judge(&mut self, jobs: Vec<Job>) {
        let (evaluate, shared) = (self.evaluate, Arc::clone(&self.shared));
        let judge = move |job: &Job| Evaluated {
            verdict: guarded(evaluate, job, &shared),
            state: job.object.state(),
            deleted: job.deleted,
        };
        spawn_blocking_in(&mut self.batches, move || jobs.iter().map(judge).collect());
    }

    /// Waits for the next batch; `None` if none is being evaluated.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> Option<Result<Vec<Evaluated>, JoinError>> {
        self.batches.join_next().await
    }
}

/// Evaluates an object; a panic becomes an error of this object only.
fn guarded(evaluate: Evaluate, job: &Job, shared: &SharedVerdicts) -> Verdict {
    catch_unwind(AssertUnwindSafe(|| evaluate(job, shared))).unwrap_or_else(|panic| {
        let why = panic_text(&*panic);
        error!(object = %job.object.key, why, "kaudit failed while evaluating an object, which is a bug");
        failed(job, &format!("kaudit failed while evaluating it, which is a bug: {why}"))
    })
}
