//! `kaudit check`: wires source, pipeline and recorders together, in one of three ways.
//!
//! [`files`], a cluster [`once`], and the long run ([`watch`](mod@watch)) differ only in the source and in what records; the
//! pipeline between them is the same.

mod files;
mod lines;
mod once;
mod policies;
mod recording;
mod watch;
mod wiring;

use std::sync::Arc;

use anyhow::Context;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::{
    cli::check::{CheckArgs, Mode},
    judge::set::PolicySet,
};

/// Runs `kaudit check`; returns the exit code.
///
/// # Errors
/// When nothing could be judged, with what to do; the exit code is 2 then.
pub async fn run(check: CheckArgs) -> anyhow::Result<u8> {
    let partly = check.mode() == Mode::Watch || check.policies.allow_refused;
    let mut loaded = policies::load(&check.policies).await?;
    if !partly {
        loaded = loaded.and_then(PolicySet::whole);
    }
    let policies = Arc::new(loaded?);
    policies::log_problems(&policies, check.shard());
    info!(rules = policies.rules(), policies = policies.policies.len(), "Policies loaded");
    let stop = CancellationToken::new();
    let mut helpers = JoinSet::new();
    helpers.spawn(signals(stop.clone())?);
    match check.mode() {
        Mode::Files => files::run(&check, policies, stop).await,
        Mode::Once => once::run(&check, policies, stop).await,
        Mode::Watch => watch::run(&check, policies, stop).await,
    }
}

/// Turns SIGTERM and SIGINT into a request to stop.
fn signals(stop: CancellationToken) -> anyhow::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => info!("SIGTERM received"),
            _ = interrupt.recv() => info!("SIGINT received"),
        }
        stop.cancel();
    })
}
