//! The term of recording: what takes deltas at present, and what was recorded before of kinds that are not known yet.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::watch;

use super::{
    command::{Record, Term},
    ended::EndedViolations,
    ledger::Delta,
    policies::PoliciesInForce,
    recorded::Recorded,
};
use crate::metrics::Metrics;

/// The most violations by transitions that may wait to be recorded: unlike open ones, the objects do not bound them.
pub(crate) const MOST_TRANSITIONS: usize = 10_000;

/// The present term of recording, if there is one.
pub(crate) struct Recording {
    recorder: Recorder,
    /// What was recorded before and has not been compared with verdicts yet.
    pub(crate) recorded: Recorded,
    /// Violations that were resolved lately, also while another process records.
    pub(crate) ended: EndedViolations,
    metrics: Arc<Metrics>,
    /// Notified of each delta.
    delta_recorded: watch::Sender<()>,
}

/// What takes deltas.
enum Recorder {
    /// Nothing: another process records, or none.
    None,
    /// Nothing yet. Open violations are compared when the term begins; transitions until then are kept.
    Awaited(Vec<Delta>),
    Present(Box<dyn Record>),
}

impl Recording {
    /// Makes it without a term. `delta_recorded` is notified of each delta, also while another process records.
    pub(crate) fn new(metrics: Arc<Metrics>, delta_recorded: watch::Sender<()>) -> Self {
        let (recorded, ended) = (Recorded::default(), EndedViolations::default());
        Self { recorder: Recorder::None, recorded, ended, metrics, delta_recorded }
    }

    /// Begins or ends a term; `owns` returns whether this process records what is in a namespace. Returns the transitions that
    /// were kept for the term and are recorded now.
    pub(crate) fn turn(&mut self, term: Term, owns: impl Fn(Option<&str>) -> bool) -> Vec<Delta> {
        self.recorded = Recorded::default();
        let now = match term {
            Term::Awaited => match std::mem::replace(&mut self.recorder, Recorder::None) {
                Recorder::Awaited(kept) => Recorder::Awaited(kept),
                Recorder::None | Recorder::Present(_) => Recorder::Awaited(Vec::new()),
            },
            Term::Begin(mut before, recorder) => {
                // Objects of another shard are not in this process's cache, but that does not mean that they were deleted.
                before.keep(owns);
                self.recorded = before;
                Recorder::Present(recorder)
            }
            Term::End => Recorder::None,
        };
        match (std::mem::replace(&mut self.recorder, now), &self.recorder) {
            (Recorder::Awaited(kept), Recorder::Present(_)) => kept,
            _ => Vec::new(),
        }
    }

    /// Whether deltas are recorded.
    pub(crate) fn is_on(&self) -> bool {
        matches!(self.recorder, Recorder::Present(_))
    }

    /// Records what changed, if anything did.
    pub(crate) fn record(&mut self, delta: Option<Delta>) {
        let Some(mut delta) = delta else { return };
        self.ended.add(&delta, Timestamp::now());
        self.count(&delta);
        self.delta_recorded.send_replace(());
        match &mut self.recorder {
            Recorder::None => {}
            Recorder::Present(recorder) => recorder.record(&mut delta),
            Recorder::Awaited(kept) => {
                let number = delta.transitions.len();
                let waiting = kept.iter().map(|delta| delta.transitions.len()).sum::<usize>();
                if waiting + number > MOST_TRANSITIONS {
                    self.metrics.recorder_dropped("events", "overflow", number as u64);
                } else if number > 0 {
                    kept.push(Delta { appeared: Vec::new(), resolved: Vec::new(), results: Vec::new(), ..delta });
                }
            }
        }
    }

    /// Counts what is recorded.
    fn count(&self, delta: &Delta) {
        if self.is_on() {
            let lane = delta.lane.as_str();
            for new in delta.appeared.iter().chain(&delta.transitions) {
                self.metrics.violation_appeared(&new.finding, delta.object.namespace.as_ref(), lane);
            }
            for ended in &delta.resolved {
                self.metrics.violation_resolved(&ended.finding.class(), lane);
            }
        }
    }

    /// Counts the policy files that are refused, and has a note about them recorded.
    pub(crate) fn note_refused(&mut self, policies: &PoliciesInForce) {
        let (files, note) = policies.refused();
        self.metrics.set_policies_refused(files);
        if let Recorder::Present(recorder) = &mut self.recorder
            && files > 0
        {
            recorder.policies_refused(&note);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::ledger::Violation;

    fn delta(transitions: usize) -> Delta {
        Delta {
            appeared: vec![Violation::sample("open")],
            transitions: (0..transitions).map(|number| Violation::sample(&number.to_string())).collect(),
            results: vec![Violation::sample("open")],
            ..Delta::sample()
        }
    }

    #[test]
    fn transitions_are_kept_while_a_term_is_awaited_and_those_that_are_too_many_counted() {
        let metrics = Arc::<Metrics>::default();
        let mut recording = Recording::new(Arc::clone(&metrics), watch::Sender::default());
        let begin = || Term::Begin(Recorded::default(), Box::new(Vec::new()));
        // Nothing is kept while another process records.
        recording.record(Some(delta(1)));
        assert!(recording.turn(begin(), |_| true).is_empty() && recording.turn(Term::End, |_| true).is_empty());
        recording.turn(Term::Awaited, |_| true);
        for transitions in [0, 6_000, 4_000, 1] {
            recording.record(Some(delta(transitions)));
        }
        let kept = recording.turn(begin(), |_| true);
        assert_eq!(kept.iter().map(|delta| delta.transitions.len()).collect::<Vec<_>>(), [6_000, 4_000]);
        assert!(
            kept.iter().all(|delta| delta.appeared.is_empty() && delta.results.is_empty()),
            "only transitions are kept"
        );
        let dropped = r#"kaudit_recorder_drops_total{recorder="events",reason="overflow"} 1"#;
        assert!(metrics.encode().lines().any(|line| line == dropped));
        // A process that loses the term before it begins has nothing to record.
        recording.turn(Term::Awaited, |_| true);
        recording.record(Some(delta(1)));
        recording.turn(Term::End, |_| true);
        assert!(recording.turn(begin(), |_| true).is_empty());
    }
}
