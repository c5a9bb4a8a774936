//! The HTTP server with `/livez`, `/readyz`, `/metrics`, `/status` and `/policies`, for the kubelet, Prometheus and
//! people.
//!
//! It reads readiness from a watch channel, counts from [`Metrics`], and the result from the pipeline via [`Status`],
//! which may take a while. It changes nothing.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    middleware,
    response::{IntoResponse, Response},
    routing::get,
};
use serde::Serialize;
use tokio::{net::TcpListener, sync::watch};
use tokio_util::sync::CancellationToken;

pub use super::status::Status;
use super::{connections, host};
use crate::{
    audit::overview::{Overview, Progress},
    metrics::{self, Metrics},
    output::{PolicyList, safe::write_json},
};

/// Timeout for a query to the pipeline.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);

/// The data sources of the server.
#[derive(Debug, Clone)]
pub struct Admin {
    /// Progress of the pipeline. When the sender is dropped, the pipeline has stopped, and both probes fail.
    pub progress: watch::Receiver<Progress>,
    /// The metrics for `/metrics`.
    pub metrics: Arc<Metrics>,
    /// The result for `/status`.
    pub status: Arc<Status>,
    /// The policies for `/policies`.
    pub overview: watch::Receiver<Option<Arc<Overview>>>,
}

/// The paths served at one address. `/status` names objects and contains the messages of violations, and `/policies` the
/// policies; the others contain only counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    /// All paths, if there is only one address.
    All,
    /// `/livez`, `/readyz` and `/metrics`.
    Health,
    /// `/status` and `/policies`.
    Status,
}

/// A server that listens but does not accept connections yet.
#[derive(Debug)]
pub struct Server {
    pub(super) listener: TcpListener,
    pub(super) address: SocketAddr,
}

/// Listens at `HOST:PORT`, or at `:PORT` of all IPv4 and IPv6 addresses.
///
/// # Errors
///
/// If the address is in use or not an address of this host; the message contains it.
pub async fn bind(address: &str) -> anyhow::Result<Server> {
    let bound = match address.strip_prefix(':') {
        // The host may not support IPv6.
        Some(port) => match TcpListener::bind(format!("[::]:{port}")).await {
            Ok(listener) => Ok(listener),
            Err(_) => TcpListener::bind(format!("0.0.0.0:{port}")).await,
        },
        None => TcpListener::bind(address).await,
    };
    let listener = bound.with_context(|| format!("listening at {address}"))?;
    let address = listener.local_addr().with_context(|| format!("listening at {address}"))?;
    Ok(Server { listener, address })
}

impl Server {
    /// Returns the address of the listener, with the port that was chosen for port 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown`, then finishes open requests.
    pub async fn serve(self, admin: Admin, pages: Pages, shutdown: CancellationToken) {
        let message = match pages {
            Pages::All => "Serving health, metrics and status",
            Pages::Health => "Serving health and metrics",
            Pages::Status => "Serving the status",
        };
        tracing::info!(address = %self.address, "{message}");
        let on_loopback = self.address.ip().is_loopback();
        if pages == Pages::All && !on_loopback {
            tracing::warn!(
                address = %self.address,
                "/status and /policies are served without authentication to anyone who can connect: set --listen-status to \
                 an address on loopback"
            );
        }
        connections::serve(self.listener, router(admin, pages, on_loopback), shutdown).await;
    }
}

/// Returns the routes. With `on_loopback`, only this machine can connect, and requests must name a loopback host.
fn router(admin: Admin, pages: Pages, on_loopback: bool) -> Router {
    let health =
        Router::new().route("/livez", get(livez)).route("/readyz", get(readyz)).route("/metrics", get(show_metrics));
    let mut status = Router::new().route("/status", get(status)).route("/policies", get(policies));
    if on_loopback {
        status = status.layer(middleware::from_fn(host::only_loopback));
    }
    let routes = match pages {
        Pages::All => health.merge(status),
        Pages::Health => health,
        Pages::Status => status,
    };
    routes.with_state(admin)
}

async fn livez(State(admin): State<Admin>) -> Response {
    if is_stopped(&admin) { stopped() } else { "ok\n".into_response() }
}

async fn readyz(State(admin): State<Admin>) -> Response {
    if is_stopped(&admin) {
        return stopped();
    }
    let progress = admin.progress.borrow().clone();
    let (code, body) = if progress.open {
        (StatusCode::OK, "[+]policies loaded\n[+]initial sync\n".to_owned())
    } else {
        let Progress { scopes_done, scopes, waiting_for, .. } = progress;
        let waiting =
            if waiting_for.is_empty() { String::new() } else { format!(", waiting for {}", waiting_for.join(", ")) };
        let body = format!("[+]policies loaded\n[-]initial sync: {scopes_done} of {scopes} lists read{waiting}\n");
        (StatusCode::SERVICE_UNAVAILABLE, body)
    };
    (code, body).into_response()
}

async fn show_metrics(State(admin): State<Admin>) -> Response {
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], admin.metrics.encode()).into_response()
}

async fn status(State(admin): State<Admin>) -> Response {
    match admin.status.json(STATUS_TIMEOUT).await {
        Some(json) => ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, "the pipeline does not respond\n").into_response(),
    }
}

async fn policies(State(admin): State<Admin>) -> Response {
    let Some(overview) = admin.overview.borrow().clone() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "the pipeline has not started\n").into_response();
    };
    json(&PolicyList::in_force(&overview.policies, overview.policy_error.as_ref()))
}

fn json(value: &impl Serialize) -> Response {
    let mut json = Vec::new();
    match write_json(&mut json, value) {
        Ok(()) => ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

fn is_stopped(admin: &Admin) -> bool {
    admin.progress.has_changed().is_err()
}

fn stopped() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "the pipeline has stopped\n").into_response()
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::TcpStream,
    };

    use tokio::{
        sync::mpsc,
        task::{JoinHandle, spawn_blocking},
    };

    use super::*;
    use crate::audit::{
        command::{Command, ResultQuery, Snapshot},
        result::AuditResult,
    };

    /// A server, with the ends of its channels that belong to the pipeline.
    struct TestAdmin {
        address: SocketAddr,
        progress: watch::Sender<Progress>,
        commands: mpsc::Receiver<Command>,
        shutdown: CancellationToken,
        task: JoinHandle<()>,
    }

    async fn start() -> TestAdmin {
        start_with(Pages::All).await
    }

    async fn start_with(pages: Pages) -> TestAdmin {
        let server = bind("127.0.0.1:0").await.unwrap();
        let address = server.address();
        let (progress, receiver) = watch::channel(Progress::default());
        let (pipeline, commands) = mpsc::channel(1);
        let overview = watch::channel(None).1;
        let status = Arc::new(Status::new(pipeline));
        let admin = Admin { progress: receiver, metrics: Arc::new(Metrics::default()), status, overview };
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(server.serve(admin, pages, shutdown.clone()));
        TestAdmin { address, progress, commands, shutdown, task }
    }

    async fn get(address: SocketAddr, path: &'static str) -> String {
        get_as("localhost:8081", address, path).await
    }

    async fn get_as(host: &'static str, address: SocketAddr, path: &'static str) -> String {
        let exchange = move || {
            let mut stream = TcpStream::connect(address).unwrap();
            write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
            let mut response = String::new();
            stream.read_to_string(&mut response).unwrap();
            response
        };
        spawn_blocking(exchange).await.unwrap()
    }

    #[tokio::test]
    async fn readiness_lists_missing_kinds() {
        let admin = start().await;
        let response = get(admin.address, "/readyz").await;
        assert!(response.starts_with("HTTP/1.1 503"), "{response}");
        let waiting_for = vec!["pods".to_owned(), "deployments.apps".to_owned()];
        admin.progress.send_replace(Progress { scopes: 9, scopes_done: 7, waiting_for, ..Progress::default() });
        let response = get(admin.address, "/readyz").await;
        let body = "[+]policies loaded\n[-]initial sync: 7 of 9 lists read, waiting for pods, deployments.apps\n";
        assert!(response.ends_with(body), "{response}");
        admin.progress.send_replace(Progress { open: true, ..Progress::default() });
        assert!(get(admin.address, "/readyz").await.starts_with("HTTP/1.1 200"));
        assert!(get(admin.address, "/livez").await.ends_with("ok\n"));
        drop(admin.progress);
        assert!(get(admin.address, "/readyz").await.starts_with("HTTP/1.1 503"));
        assert!(get(admin.address, "/livez").await.starts_with("HTTP/1.1 503"));
    }

    #[tokio::test]
    async fn metrics_and_status_have_content_types() {
        let mut admin = start().await;
        let response = get(admin.address, "/metrics").await;
        assert!(response.contains("content-type: application/openmetrics-text; version=1.0.0"), "{response}");
        assert!(response.ends_with("# EOF\n"));
        let answering = tokio::spawn(async move {
            let result = AuditResult::sample(0);
            let Some(Command::Result(ResultQuery { answer, .. })) = admin.commands.recv().await else {
                panic!("no query")
            };
            assert!(answer.send(Some(Snapshot { revision: 1, changed: None, result })).is_ok());
        });
        let response = get(admin.address, "/status").await;
        assert!(response.contains("content-type: application/json"), "{response}");
        assert!(response.contains("\"kind\":\"AuditResult\""), "{response}");
        answering.await.unwrap();
        // The pipeline has stopped.
        assert!(get(admin.address, "/status").await.starts_with("HTTP/1.1 503"));
        assert!(get(admin.address, "/other").await.starts_with("HTTP/1.1 404"));
    }

    #[tokio::test]
    async fn shutdown_ends_the_server() {
        let admin = start().await;
        admin.shutdown.cancel();
        admin.task.await.unwrap();
        assert!(TcpStream::connect(admin.address).is_err());
    }

    #[tokio::test]
    async fn the_status_can_have_a_separate_address() {
        let (health, status) = (start_with(Pages::Health).await, start_with(Pages::Status).await);
        for (path, here, there) in [
            ("/livez", &health, &status),
            ("/readyz", &health, &status),
            ("/metrics", &health, &status),
            ("/status", &status, &health),
            ("/policies", &status, &health),
        ] {
            assert!(!get(here.address, path).await.starts_with("HTTP/1.1 404"), "{path}");
            assert!(get(there.address, path).await.starts_with("HTTP/1.1 404"), "{path}");
        }
    }

    #[tokio::test]
    async fn requests_for_other_hosts_are_rejected_on_loopback() {
        for pages in [Pages::All, Pages::Status] {
            let admin = start_with(pages).await;
            for path in ["/status", "/policies"] {
                let answer = get_as("evil.example", admin.address, path).await;
                assert!(answer.starts_with("HTTP/1.1 421"), "{path}: {answer}");
                let answer = get_as("127.0.0.1:8081", admin.address, "/policies").await;
                assert!(!answer.starts_with("HTTP/1.1 421"), "{answer}");
            }
        }
        // The kubelet and Prometheus use the address of the pod.
        let admin = start().await;
        assert!(get_as("10.0.0.1:8080", admin.address, "/livez").await.starts_with("HTTP/1.1 200"));
    }

    #[tokio::test]
    async fn a_taken_address_is_named() {
        let first = bind("127.0.0.1:0").await.unwrap();
        let address = first.address().to_string();
        let error = bind(&address).await.unwrap_err();
        assert!(error.to_string().contains(&address), "{error:#}");
        assert!(bind(":0").await.is_ok());
    }
}
