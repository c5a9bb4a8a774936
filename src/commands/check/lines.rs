//! The result stream of the long run: a line for each violation that is new, is resolved, or happened in a transition.
//!
//! A slow reader does not delay anything. A line that cannot be written is dropped and counted at once; a warning is
//! logged at most once a minute.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use tokio::{
    sync::mpsc::{self, error::TrySendError},
    task::JoinSet,
};
use tracing::warn;

use crate::{
    audit::{
        ledger::{Delta, Lifecycle},
        result::Entry,
    },
    blocking::spawn_blocking,
    metrics::Metrics,
    output::Streams,
};

/// How many lines are queued for the reader of standard output; more are dropped.
const LINES: usize = 10_000;
/// How many lines are written at a time.
const BATCH: usize = 100;
/// How often lost lines are logged.
const REPORT_EVERY: Duration = Duration::from_mins(1);

/// Writes lines in a task of its own; returns a function that queues the lines of a delta and never blocks.
pub(super) fn write(
    mut streams: Streams,
    metrics: &Arc<Metrics>,
    helpers: &mut JoinSet<()>,
) -> impl Fn(&Delta) + Send + Sync + use<> {
    let (sender, mut lines) = mpsc::channel::<(Lifecycle, Entry, Timestamp)>(LINES);
    let (slow, mut failed) = (Losses::new("slow_reader", metrics), Losses::new("failed", metrics));
    helpers.spawn(async move {
        let mut batch = Vec::new();
        while lines.recv_many(&mut batch, BATCH).await > 0 {
            let taken = std::mem::take(&mut batch);
            let write = move || {
                for (event, entry, time) in &taken {
                    match streams.line(*event, entry, *time) {
                        Ok(true) => failed.report_when_due(),
                        Ok(false) => return None,
                        Err(error) => failed.add(&format!("{error:#}")),
                    }
                }
                Some((streams, failed))
            };
            let Ok(Some(open)) = spawn_blocking(write).await else { return };
            (streams, failed) = open;
        }
    });
    move |delta| {
        let (resource, now) = (&delta.object, Timestamp::now());
        for (event, violation) in delta.changes() {
            match sender.try_send((event, Entry::new(&violation.finding, resource, None, delta.owner.as_ref()), now)) {
                Ok(()) => slow.report_when_due(),
                Err(TrySendError::Full(_)) => slow.add("standard output is read too slowly"),
                // The reader has closed standard output, which is not a loss.
                Err(TrySendError::Closed(_)) => return,
            }
        }
    }
}

/// Lines that were lost for one reason.
struct Losses {
    /// The reason as a metric's label.
    reason: &'static str,
    metrics: Arc<Metrics>,
    unreported: Mutex<UnreportedLosses>,
}

/// The losses since the last report.
#[derive(Default)]
struct UnreportedLosses {
    lines: u64,
    why: String,
    reported: Option<Instant>,
}

impl Losses {
    fn new(reason: &'static str, metrics: &Arc<Metrics>) -> Self {
        Self { reason, metrics: Arc::clone(metrics), unreported: Mutex::default() }
    }

    /// Counts a line that is lost.
    fn add(&self, why: &str) {
        self.metrics.recorder_dropped("output", self.reason, 1);
        let mut unreported = self.unreported.lock().unwrap_or_else(PoisonError::into_inner);
        unreported.lines += 1;
        why.clone_into(&mut unreported.why);
        unreported.report_when_due();
    }

    fn report_when_due(&self) {
        self.unreported.lock().unwrap_or_else(PoisonError::into_inner).report_when_due();
    }
}

impl UnreportedLosses {
    fn report_when_due(&mut self) {
        if self.lines > 0 && self.reported.is_none_or(|reported| reported.elapsed() >= REPORT_EVERY) {
            self.report();
        }
    }

    fn report(&mut self) {
        warn!(lines = self.lines, "Results dropped from the output: {}", self.why);
        (self.lines, self.reported) = (0, Some(Instant::now()));
    }
}

/// Reports the remaining losses.
impl Drop for UnreportedLosses {
    fn drop(&mut self) {
        if self.lines > 0 {
            self.report();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::OpenOptions,
        io::{BufRead as _, BufReader},
        process::Command,
    };

    use clap::ColorChoice;

    use super::*;
    use crate::{
        audit::ledger::Violation,
        model::{object::ObjectRef, verdict::Finding},
        output::{Format, Target},
    };

    /// Returns a delta with this many new violations.
    fn delta(violations: usize) -> Delta {
        let finding = |index: usize| Finding::sample(&format!("violation {index}"));
        let violation = |index| Violation::new(&ObjectRef::sample(), finding(index), Timestamp::UNIX_EPOCH);
        Delta {
            object: Arc::new(ObjectRef::sample()),
            appeared: (0..violations).map(violation).collect(),
            ..Delta::sample()
        }
    }

    fn streams(path: &std::path::Path) -> Streams {
        let target = Target { format: Format::Ndjson, file: Some(path.to_owned()) };
        Streams::open(&[target], ColorChoice::Never).unwrap()
    }

    fn dropped(metrics: &Metrics, reason: &str) -> usize {
        let text = metrics.encode();
        let series = format!("kaudit_recorder_drops_total{{recorder=\"output\",reason=\"{reason}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&series)).map_or(0, |count| count.parse().unwrap())
    }

    #[tokio::test]
    async fn unread_lines_are_dropped_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let reader = OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
        let (metrics, mut helpers) = (Arc::new(Metrics::default()), JoinSet::new());
        let take = write(streams(&pipe), &metrics, &mut helpers);
        take(&delta(3 * LINES));
        let lost = dropped(&metrics, "slow_reader");
        assert!(lost > LINES, "only {lost}");
        // Queued lines are written as soon as they are read.
        let reading = tokio::task::spawn_blocking(move || {
            BufReader::new(reader).lines().take(3 * LINES - lost).map(|line| line.unwrap().len()).sum::<usize>()
        });
        assert!(tokio::time::timeout(Duration::from_mins(1), reading).await.unwrap().unwrap() > LINES);
        drop(take);
        assert!(helpers.join_next().await.unwrap().is_ok());
        assert_eq!(dropped(&metrics, "slow_reader"), lost);
    }

    #[tokio::test]
    async fn lines_for_a_full_disk_are_counted() {
        let (metrics, mut helpers) = (Arc::new(Metrics::default()), JoinSet::new());
        let take = write(streams("/dev/full".as_ref()), &metrics, &mut helpers);
        take(&delta(500));
        drop(take);
        assert!(helpers.join_next().await.unwrap().is_ok());
        assert_eq!(dropped(&metrics, "failed"), 500);
    }

    #[test]
    fn the_first_loss_is_reported_at_once_and_later_ones_are_summed_up() {
        let losses = Losses::new("failed", &Arc::default());
        for _ in 0..3 {
            losses.add("no space left on device");
        }
        let mut unreported = losses.unreported.lock().unwrap();
        assert!(unreported.reported.is_some());
        assert_eq!(unreported.lines, 2, "the first is reported");
        unreported.reported = None;
        unreported.report_when_due();
        assert_eq!(unreported.lines, 0);
    }
}
