//! Serves metrics and the page of a fleet until a signal comes.

use std::sync::Arc;

use tokio::sync::watch;

use crate::{cli::fleet::FleetArgs, fleet::view::FleetView};

/// Serves until a signal comes.
pub(super) async fn run(_fleet: &FleetArgs, _view: watch::Receiver<Arc<FleetView>>) -> anyhow::Result<u8> {
    anyhow::bail!("not built yet")
}
