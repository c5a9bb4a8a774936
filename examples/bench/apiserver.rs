//! A simulated API server: it serves hundreds of thousands of objects of realistic sizes, and thousands of changes a
//! second, without keeping any of them.
//!
//! Clients send the same requests as to kube-apiserver, over HTTP/1.1 without TLS. The responses are discovery, lists
//! and watches. Their objects are computed while they are sent: from the slot of the object ([`world`]), the versions
//! of its last changes ([`history`]) and a template ([`objects`], [`shapes`]). A list at a version and the watch from
//! there always give the same objects as any later list; the same options always give the same objects.
//!
//! Besides Kubernetes' API, `GET /simulated/counters` returns the numbers of requests and `POST` resets them, `POST
//! /simulated/changes` sets another pace (`per-second`, `status-share`, `count`), and `POST /simulated/relabel` changes
//! the labels of all Namespaces.

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
    /// Number of objects of all kinds
    #[arg(long, default_value_t = 300_000)]
    pub(crate) objects: u32,
    /// Number of namespaces, a few of them with very many objects
    #[arg(long, default_value_t = 2_000)]
    pub(crate) namespaces: u32,
    /// Seed of the random contents of objects
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Changes per second
    #[arg(long, default_value_t = 0.0)]
    pub(crate) changes: f64,
    /// Percentage of changes that affect only the status
    #[arg(long, default_value_t = 80, value_parser = clap::value_parser!(u32).range(..=100))]
    pub(crate) status_share: u32,
    /// Number of versions that are kept; lists and watches from older ones expire
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) history: usize,
    /// Seconds after which the continue token of a list expires
    #[arg(long)]
    pub(crate) continue_seconds: Option<u64>,
    /// Seconds after which the server ends a watch
    #[arg(long, default_value_t = 1_800)]
    pub(crate) watch_seconds: u32,
    /// Seconds between bookmarks of a watch
    #[arg(long, default_value_t = 60)]
    pub(crate) bookmark_seconds: u64,
    /// Compress lists for clients that accept gzip
    #[arg(long)]
    pub(crate) gzip: bool,
    /// Port on 127.0.0.1; 0 selects a free one
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// File for a kubeconfig, written when the server is ready
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

/// The server.
#[derive(Debug)]
pub(crate) struct Server {
    options: Options,
    objects: Objects,
    history: RwLock<History>,
    /// The last version that watches may send.
    latest: watch::Sender<u32>,
    pace: watch::Sender<Pace>,
    /// The number of changes since the pace was set.
    made: AtomicU64,
    counters: Arc<Counters>,
    written: Written,
    began: Instant,
}

impl Server {
    /// Creates a server that does not listen yet.
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

    /// Applies changes to the history, and wakes the watches.
    fn change(&self, changes: impl FnOnce(&mut History, &World)) {
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

    /// Whether the continue token of a list that began at this time has expired.
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

/// Serves until the future is dropped. Calls `ready` with the address when the server is ready.
pub(crate) async fn serve(server: Arc<Server>, ready: impl FnOnce(SocketAddr) -> Result<()>) -> Result<()> {
    let port = server.options.port;
    let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, port)).await.context("listening")?;
    ready(listener.local_addr()?)?;
    // As in kube-apiserver. If it fails, the connection has ended already.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    let app = Router::new().fallback(routes::answer).with_state(server.clone());
    let changes = changes::run(server.clone(), server.pace.subscribe());
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
            // Other processes may wait for the file, so it must be complete when it appears.
            let part = path.with_extension("part");
            std::fs::write(&part, kubeconfig.to_string())
                .and_then(|()| std::fs::rename(&part, path))
                .context("writing")?;
        }
        crate::print(&format!("http://{address}"))
    })
    .await
}
