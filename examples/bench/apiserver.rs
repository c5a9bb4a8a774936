//! A simulated API server: it serves hundreds of thousands of objects of realistic sizes, and thousands of changes a second,
//! without keeping any of them.
//!
//! In: what a client asks for, over HTTP/1.1 without TLS, as it would ask kube-apiserver. Out: discovery, lists and watches
//! whose objects are computed while they are sent, from the number of the object ([`world`]), when it changed last
//! ([`history`]) and a template ([`objects`], [`shapes`]). A list at a version and the watch from there always add up to any
//! later list; the same options always give the same objects.
//!
//! Beside Kubernetes' API, `/simulated/counters` tells what was asked for (a POST begins anew), `/simulated/changes` takes
//! another pace (`per-second`, `status-share`, `count`), and `/simulated/relabel` changes the labels of all Namespaces.

mod answer;
mod changes;
mod counters;
mod history;
mod kinds;
mod lists;
mod objects;
mod routes;
mod shapes;
mod status;
mod template;
mod watches;
mod world;
mod writes;

#[cfg(test)]
mod tests;

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, atomic::AtomicU64},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use axum::{Router, serve::ListenerExt};
use serde_json::json;
use tokio::{net::TcpListener, sync::watch};

use self::{
    answer::Query, changes::Pace, counters::Counters, history::History, objects::Objects, world::World, writes::Written,
};

/// Options of `serve`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// Objects of all kinds
    #[arg(long, default_value_t = 300_000)]
    pub(crate) objects: u32,
    /// Namespaces over which they are spread, a few of them huge
    #[arg(long, default_value_t = 2_000)]
    pub(crate) namespaces: u32,
    /// Other objects for another number
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Changes a second
    #[arg(long, default_value_t = 0.0)]
    pub(crate) changes: f64,
    /// Percentage of the changes that are of the status alone
    #[arg(long, default_value_t = 80, value_parser = clap::value_parser!(u32).range(..=100))]
    pub(crate) status_share: u32,
    /// Versions that are kept: older ones cannot be listed or watched from
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) history: usize,
    /// Seconds after which a list can no longer be read on
    #[arg(long)]
    pub(crate) continue_seconds: Option<u64>,
    /// Seconds that a watch lives at most
    #[arg(long, default_value_t = 1_800)]
    pub(crate) watch_seconds: u32,
    /// Seconds between the bookmarks of a watch
    #[arg(long, default_value_t = 60)]
    pub(crate) bookmark_seconds: u64,
    /// Compress lists for clients that take gzip
    #[arg(long)]
    pub(crate) gzip: bool,
    /// Port of 127.0.0.1; 0 takes any
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// Write a kubeconfig into this file, once requests are answered
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

/// The server.
#[derive(Debug)]
pub(crate) struct Server {
    options: Options,
    objects: Objects,
    history: RwLock<History>,
    /// The last version that watches may tell of.
    latest: watch::Sender<u32>,
    pace: watch::Sender<Pace>,
    /// Changes since it was set.
    made: AtomicU64,
    counters: Arc<Counters>,
    written: Written,
    began: Instant,
}

impl Server {
    /// Makes a server that does not listen yet.
    pub(crate) fn new(options: Options) -> Result<Arc<Self>> {
        let world = World::new(options.objects, options.namespaces, options.seed)?;
        let history = History::new(world.len(), options.history);
        let pace = Pace { per_second: options.changes, status_share: options.status_share, count: u64::MAX };
        Ok(Arc::new(Self {
            objects: Objects::new(world)?,
            latest: watch::channel(history.latest()).0,
            history: RwLock::new(history),
            pace: watch::channel(pace).0,
            made: AtomicU64::new(0),
            counters: Arc::default(),
            written: Written::default(),
            began: Instant::now(),
            options,
        }))
    }

    fn history(&self) -> RwLockReadGuard<'_, History> {
        self.history.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes changes, and wakes the watches.
    fn happen(&self, changes: impl FnOnce(&mut History, &World)) {
        let latest = {
            let mut history = self.history.write().unwrap_or_else(PoisonError::into_inner);
            changes(&mut history, &self.objects.world);
            history.latest()
        };
        self.latest.send_replace(latest);
    }

    fn milliseconds(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// Whether a list that began at this time can no longer be read on.
    fn has_expired(&self, began_ms: u64) -> bool {
        let seconds = self.options.continue_seconds;
        seconds.is_some_and(|seconds| self.milliseconds() >= began_ms.saturating_add(seconds * 1_000))
    }

    fn gzips(&self, query: &Query) -> bool {
        self.options.gzip && query.gzip
    }

    fn bookmarks_every(&self) -> Duration {
        Duration::from_secs(self.options.bookmark_seconds)
    }
}

/// Serves until it is dropped; `ready` is told the address once requests are answered.
pub(crate) async fn serve(server: Arc<Server>, ready: impl FnOnce(SocketAddr) -> Result<()>) -> Result<()> {
    let port = server.options.port;
    let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, port)).await.context("listening")?;
    ready(listener.local_addr()?)?;
    // As kube-apiserver has it. A connection that is gone already needs no option.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    let app = Router::new().fallback(routes::answer).with_state(server.clone());
    let changes = changes::make(server.clone(), server.pace.subscribe());
    tokio::select! {
        ended = async { axum::serve(listener, app).await } => Ok(ended?),
        () = changes => Ok(()),
    }
}

/// Runs `serve`.
pub(crate) async fn run(options: &Options) -> Result<()> {
    let server = Server::new(options.clone())?;
    serve(server, |address| {
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "simulated",
            "clusters": [{"name": "simulated", "cluster": {"server": format!("http://{address}")}}],
            "users": [{"name": "simulated", "user": {}}],
            "contexts": [{"name": "simulated", "context": {"cluster": "simulated", "user": "simulated"}}],
        });
        if let Some(path) = &options.kubeconfig {
            // Whoever waits for the file never sees a part of it.
            let part = path.with_extension("part");
            std::fs::write(&part, kubeconfig.to_string())
                .and_then(|()| std::fs::rename(&part, path))
                .context("writing")?;
        }
        crate::print(&format!("http://{address}"))
    })
    .await
}
