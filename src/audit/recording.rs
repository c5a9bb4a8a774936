//! Who records at present, and what was recorded before of kinds that are not known yet.

use super::{
    command::{Record, Term},
    ledger::Delta,
    recorded::Recorded,
};

/// The present term of recording, if there is one.
#[derive(Default)]
pub(crate) struct Recording {
    recorder: Option<Box<dyn Record>>,
    /// What was recorded before, as far as it was not compared with verdicts yet.
    pub(crate) recorded: Recorded,
}

impl Recording {
    /// Begins or ends a term; `owns` says which namespaces are this process's to record.
    pub(crate) fn turn(&mut self, term: Term, owns: impl Fn(Option<&str>) -> bool) {
        *self = match term {
            Term::Begin(mut before, recorder) => {
                // The objects of another shard are neither known here nor gone.
                before.keep(owns);
                Self { recorder: Some(recorder), recorded: before }
            }
            Term::End => Self::default(),
        };
    }

    /// Whether deltas are recorded.
    pub(crate) fn is_on(&self) -> bool {
        self.recorder.is_some()
    }

    /// Records what changed, if anything did.
    pub(crate) fn record(&mut self, delta: Option<Delta>) {
        if let (Some(delta), Some(recorder)) = (delta, &mut self.recorder) {
            recorder.record(&delta);
        }
    }

    /// Records that policies are refused.
    pub(crate) fn policies_refused(&mut self, note: &str) {
        if let Some(recorder) = &mut self.recorder {
            recorder.policies_refused(note);
        }
    }
}
