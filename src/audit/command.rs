//! What is asked of a running pipeline.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot};

use super::{exceptions::Exceptions, ledger::Delta, recorded::Recorded, result::AuditResult};
use crate::{judge::set::PolicySet, rego::LoadError};

/// What is asked of a running pipeline. Commands are carried out in the order in which they are sent.
pub enum Command {
    /// Send the whole result; whoever asked may have gone away.
    Result(ResultQuery),
    /// Send what stands and is told of: one delta an object, in which nothing changed; nothing before judging has begun.
    Standing(oneshot::Sender<Option<Vec<Delta>>>),
    /// Judge by what the policy directory holds now.
    Reload(Reload),
    /// Excuse by what the files of exceptions hold now, or say why they could not be loaded.
    Except(anyhow::Result<Exceptions>),
    /// Begin or end to record.
    Record(Term),
}

/// A question for the whole result.
pub struct ResultQuery {
    /// The revision that whoever asks has; if it is the newest, none is sent.
    pub known: Option<u64>,
    /// Takes the answer.
    pub answer: oneshot::Sender<Option<Snapshot>>,
}

/// Asks a pipeline for what is newer than a revision. Returns `None` if it is gone, and `Some(None)` if nothing is newer.
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
    /// The result; its entries are to be [sorted](AuditResult::sort) by whoever asked, to spare the pipeline.
    pub result: AuditResult,
}

/// A new state of the policy directory.
pub type Reload = Result<Arc<PolicySet>, LoadError>;

/// A change of who records. Judging goes on in any case; deltas go to a recorder within a term only.
pub enum Term {
    /// This process is to record, as soon as it has read what was recorded before.
    Awaited,
    /// This process records from now on: what was recorded before, and what takes the deltas.
    Begin(Recorded, Box<dyn Record>),
    /// This process no longer records.
    End,
}

/// Takes what is to be recorded. Never blocks: an implementation that cannot keep up drops, and counts what it drops.
pub trait Record: Send {
    /// Takes what changed in the results of an object.
    fn record(&mut self, delta: &Delta);

    /// Takes a note that policies are refused.
    fn policies_refused(&mut self, note: &str);
}
