//! Reports: the current results, for users of kubectl or of a report viewer.
//!
//! The recorder starts with the reports of earlier runs ([`load`](mod@load)), and changes them by deltas only. So
//! results that no delta is about, such as those of kinds that cannot be read, are kept. A report is written when its
//! content ([`format`]) differs from what the server has, at once after a change and then at most every five seconds;
//! results are spread over reports of bounded size ([`partitions`]).
//!
//! Nothing is lost when the server is slow or unreachable: what waits ([`pending`]) is the set of objects that changed,
//! with their latest results.

mod documents;
mod format;
mod load;
mod partitions;
mod pending;
mod problems;
mod recorder;
mod report_set;
mod settings;
mod write;

use tokio::sync::watch;

use self::recorder::ReportRecorder;
pub use self::{
    documents::of_results,
    format::{Api, Choice, Instance, Layout},
    load::{LoadedReports, load, reported},
    pending::ReportSink,
    settings::{Ownership, ReportSettings},
};
use crate::record::health::Health;

/// Starts a recorder with the reports that were read. The future ends when the sink is dropped and everything is
/// written.
pub fn start(
    settings: ReportSettings,
    loaded: LoadedReports,
    health: watch::Sender<Health>,
) -> (ReportSink, impl Future<Output = ()> + Send) {
    let (sink, pending) = pending::channel();
    (sink, ReportRecorder::new(settings, loaded, health).run(pending))
}
