//! Commands for a running pipeline.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot};

use super::{exceptions::Exceptions, ledger::Delta, recorded::Recorded, result::AuditResult};
use crate::{judge::set::PolicySet, rego::LoadError};

/// A command for a running pipeline. Commands are carried out in the order in which they are sent.
pub enum Command {
    /// Send the whole result. The receiver may have been dropped.
    Result(ResultQuery),
    /// Send all open violations: a delta for each object, in which nothing changed; `None` before evaluation has begun.
    Standing(oneshot::Sender<Option<Vec<Delta>>>),
    /// Put newly loaded policies in force.
    Reload(Reload),
    /// Put newly loaded files of exceptions in force, or report why they could not be loaded.
    Except(anyhow::Result<Exceptions>),
    /// Begin or end to record.
    Record(Term),
}

/// A query for the whole result.
pub struct ResultQuery {
    /// The revision that the sender has; if it is the newest, no snapshot is sent.
    pub known: Option<u64>,
    /// Takes the answer.
    pub answer: oneshot::Sender<Option<Snapshot>>,
}

/// Queries a pipeline for a result newer than a revision. Returns `None` if the pipeline has ended, and `Some(None)` if there
/// is no newer result.
pub async fn ask(pipeline: &mpsc::Sender<Command>, known: Option<u64>) -> Option<Option<Snapshot>> {
    let (answer, received) = oneshot::channel();
    pipeline.send(Command::Result(ResultQuery { known, answer })).await.ok()?;
    received.await.ok()
}

/// The whole result at one moment.
pub struct Snapshot {
    /// Grows with each change of the result.
    pub revision: u64,
    /// When an object was last seen to change.
    pub changed: Option<Timestamp>,
    /// The result; the receiver has to [sort](AuditResult::sort) its entries, to spare the pipeline.
    pub result: AuditResult,
}

/// A new state of the policy directory.
pub type Reload = Result<Arc<PolicySet>, LoadError>;

/// Begin or end of a term of recording. Evaluation continues in any case; deltas go to a recorder only within a term.
pub enum Term {
    /// This process will record as soon as it has read what was recorded before.
    Awaited,
    /// This process records from now on: what was recorded before, and what takes the deltas.
    Begin(Recorded, Box<dyn Record>),
    /// This process no longer records.
    End,
}

/// Records deltas. Never blocks: an implementation that cannot keep up drops deltas, and counts them.
pub trait Record: Send {
    /// Records what changed in the results of an object. May add to it what the recorders after it need.
    fn record(&mut self, delta: &mut Delta);

    /// Records a note that policies are refused.
    fn policies_refused(&mut self, _note: &str) {}
}

/// Recorders, each of which gets every delta, in this order.
impl Record for Vec<Box<dyn Record>> {
    fn record(&mut self, delta: &mut Delta) {
        for recorder in self {
            recorder.record(delta);
        }
    }

    fn policies_refused(&mut self, note: &str) {
        for recorder in self {
            recorder.policies_refused(note);
        }
    }
}
