//! Serves metrics and the page of a fleet until a signal comes.

use std::sync::Arc;

use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::scope;
use crate::{
    cli::fleet::FleetArgs,
    fleet::view::FleetView,
    run::signals::signals,
    serve::{admin, fleet::FleetSite},
};

/// Serves until a signal comes; returns the exit code.
pub(super) async fn run(fleet: &FleetArgs, view: watch::Receiver<Arc<FleetView>>) -> anyhow::Result<u8> {
    let stop = CancellationToken::new();
    let again = signals(stop.clone())?;
    let site = FleetSite::new(view, scope(fleet));
    let mut servers = JoinSet::new();
    if let Some(address) = &fleet.listen {
        servers.spawn(site.clone().serve_health(admin::bind(address).await?, stop.clone()));
    }
    if let Some(address) = &fleet.listen_ui {
        servers.spawn(site.serve_page(admin::bind(address).await?, stop));
    }
    tokio::select! {
        _ended = servers.join_all() => {}
        () = again => {}
    }
    Ok(0)
}
