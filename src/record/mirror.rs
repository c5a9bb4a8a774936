//! Mirrors the results of the cluster into its bucket of a fleet.
//!
//! In: the result whenever it has changed. Out: the values of the bucket that differ from it. Whatever fails, the next
//! session reads what the bucket has and writes the differences, as a new leader does.

mod claim;
mod session;
mod settings;
#[cfg(test)]
mod tests;
mod values;

use std::{sync::Arc, time::Duration};

use kube::Client;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use tracing::{info, warn};

pub use self::settings::MirrorSettings;
use self::{
    session::{MirrorSession, PastSessions},
    settings::RECORDER,
};
use super::health::Health;
use crate::{audit::overview::Overview, cluster::backoff::Backoff};

/// Delays after failures.
const RETRY: Backoff = Backoff::between(Duration::from_secs(1), Duration::from_secs(30));
/// A session that lasted so long was not one of a row of failures.
const LASTING: Duration = Duration::from_mins(1);

/// Mirrors until the pipeline ends.
pub(super) async fn run(
    settings: MirrorSettings,
    client: Client,
    overview: watch::Receiver<Option<Arc<Overview>>>,
    health: watch::Sender<Health>,
) {
    settings.metrics.recorder_began(RECORDER);
    let mut past = PastSessions::default();
    loop {
        let began = Instant::now();
        let running = async {
            let mut session = MirrorSession::open(&settings, &client, overview.clone(), past).await?;
            info!(cluster = &*settings.cluster, "Mirroring into the bucket of the fleet");
            health.send_replace(Health::default());
            let ended = session.run().await;
            past.rival = session.rival();
            ended
        };
        // Without a pipeline there is nothing to mirror: a server that does not answer must not delay the end.
        let ended = tokio::select! {
            ended = running => ended,
            () = settings.pipeline.closed() => return,
        };
        let Err(why) = ended else { return };
        past.failures = if began.elapsed() > LASTING { 1 } else { past.failures + 1 };
        let trouble = format!("the bucket of the fleet is not up to date: {why}");
        if health.borrow().trouble != trouble {
            warn!("{trouble}");
        }
        health.send_replace(Health { trouble, ..Health::default() });
        settings.metrics.recorder_retries(RECORDER);
        tokio::select! {
            () = sleep(RETRY.with_jitter(past.failures)) => {}
            () = settings.pipeline.closed() => return,
        }
    }
}
