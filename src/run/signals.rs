//! The signals that end a run.

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::info;

/// Cancels `stop` at the first SIGTERM or SIGINT. The returned future completes at the second one: the user does not
/// want to wait for pending writes.
pub(crate) fn signals(stop: CancellationToken) -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
    Ok(async move {
        for _ in 0..2 {
            tokio::select! {
                _ = terminate.recv() => info!("SIGTERM received"),
                _ = interrupt.recv() => info!("SIGINT received"),
            }
            stop.cancel();
        }
    })
}
