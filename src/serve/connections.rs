//! Limits the number of HTTP connections and the duration of each, so that slow or hostile clients cannot block the
//! probes.
//!
//! When the limit is reached, each further connection gets one response, and only to a probe; the others are closed
//! after their current response.

use std::{pin::pin, sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    extract::Request,
    http::StatusCode,
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Notify, Semaphore},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::debug;

/// Maximum number of concurrent connections for all requests.
const CONNECTIONS: usize = 64;
/// Maximum number of further concurrent connections, for the probes only; more must wait until one ends.
const PROBES: usize = 448;
/// Timeout for the head of a request, from the start of the connection or the last response.
const HEAD: Duration = Duration::from_secs(5);
/// The same timeout while the connection limit is reached.
const SHORT_HEAD: Duration = Duration::from_secs(1);
/// Maximum lifetime of a connection, however slowly the client reads. Prometheus and the kubelet reconnect.
const LIFE: Duration = Duration::from_mins(1);
/// How long open requests may continue after [`LIFE`], or after a signal.
const DRAIN: Duration = Duration::from_secs(3);
/// Pause after accepting a connection failed for lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves until `shutdown`, then finishes open requests.
pub(super) async fn serve(listener: TcpListener, router: Router, shutdown: CancellationToken) {
    let (full, probes) = (Arc::new(Semaphore::new(CONNECTIONS)), Arc::new(Semaphore::new(PROBES)));
    let probe_router = router.clone().layer(middleware::from_fn(only_probes));
    let crowded = Arc::new(Notify::new());
    let mut open = JoinSet::new();
    while let Some((stream, probe)) = shutdown
        .run_until_cancelled(async {
            let probe = Arc::clone(&probes).acquire_owned().await;
            (accept(&listener).await, probe)
        })
        .await
    {
        while open.try_join_next().is_some() {}
        let place = Arc::clone(&full).try_acquire_owned();
        let (router, mode) = if place.is_ok() {
            (router.clone(), ConnectionMode::Full(Arc::clone(&crowded)))
        } else {
            crowded.notify_waiters();
            (probe_router.clone(), ConnectionMode::Probe)
        };
        let probe = probe.ok().filter(|_| place.is_err());
        let shutdown = shutdown.clone();
        open.spawn(async move {
            serve_one(stream, router, mode, shutdown).await;
            drop((place, probe));
        });
    }
    drop(listener);
    while open.join_next().await.is_some() {}
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                debug!(%error, "Failed to accept a connection");
                sleep(PAUSE).await;
            }
        }
    }
}

/// An extension of each request: cancelled when its connection is about to be closed. Endless responses must then end,
/// so that the client receives a complete response.
#[derive(Debug, Clone, Default)]
pub(super) struct ConnectionClosing(pub CancellationToken);

/// Which requests of a connection are answered.
enum ConnectionMode {
    /// Any number of requests, until notified that the limit is reached.
    Full(Arc<Notify>),
    /// One request.
    Probe,
}

/// Answers only the probes.
async fn only_probes(request: Request, next: Next) -> Response {
    if matches!(request.uri().path(), "/livez" | "/readyz") {
        return next.run(request).await;
    }
    (StatusCode::SERVICE_UNAVAILABLE, "too many connections\n").into_response()
}

/// Answers the requests of one connection.
async fn serve_one(stream: TcpStream, router: Router, mode: ConnectionMode, shutdown: CancellationToken) {
    let mut protocol = http1::Builder::new();
    let is_probe = matches!(mode, ConnectionMode::Probe);
    protocol.timer(TokioTimer::new()).keep_alive(!is_probe);
    protocol.header_read_timeout(if is_probe { SHORT_HEAD } else { HEAD });
    let crowded = async {
        match &mode {
            ConnectionMode::Full(crowded) => crowded.notified().await,
            ConnectionMode::Probe => std::future::pending().await,
        }
    };
    let closing = ConnectionClosing::default();
    let router = router.layer(Extension(closing.clone()));
    let mut connection = pin!(protocol.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)));
    tokio::select! {
        // The client disconnected or exceeded a timeout.
        _ended = connection.as_mut() => return,
        () = shutdown.cancelled() => {}
        () = crowded => {}
        () = sleep(LIFE) => {}
    }
    closing.0.cancel();
    connection.as_mut().graceful_shutdown();
    let _overdue = timeout(DRAIN, connection).await;
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        io::{Read as _, Write as _},
        net::{SocketAddr, TcpStream as Client},
        time::Instant,
    };

    use axum::{body::Body, routing::get};
    use futures::{StreamExt as _, stream};
    use tokio::task::spawn_blocking;

    use super::*;

    /// Timeout of a test.
    const PATIENCE: Duration = Duration::from_mins(1);

    async fn start() -> (SocketAddr, CancellationToken, tokio::task::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let large = || async { "x".repeat(64 * 1024 * 1024) };
        let router = Router::new().route("/livez", get(|| async { "ok\n" })).route("/large", get(large));
        let shutdown = CancellationToken::new();
        let serving = tokio::spawn(serve(listener, router, shutdown.clone()));
        (address, shutdown, serving)
    }

    /// Connects and sends the start of a request.
    fn begin(address: SocketAddr, text: &str) -> Client {
        let mut stream = Client::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream
    }

    fn rest(mut stream: Client) -> String {
        let mut text = String::new();
        // A reset also ends the connection.
        let _reset = stream.read_to_string(&mut text);
        text
    }

    #[tokio::test]
    async fn an_incomplete_request_head_times_out() {
        let (address, ..) = start().await;
        let waited = spawn_blocking(move || {
            let began = Instant::now();
            assert_eq!(rest(begin(address, "GET /livez HTTP/1.1\r\nHo")), "");
            began.elapsed()
        });
        let waited = waited.await.unwrap();
        assert!(waited > HEAD / 2 && waited < PATIENCE / 2, "{waited:?}");
    }

    #[tokio::test]
    async fn more_connections_than_the_limit_do_not_stop_the_probes() {
        let (address, ..) = start().await;
        let answer = spawn_blocking(move || {
            let idle: Vec<Client> = (0..CONNECTIONS + 40).map(|_| begin(address, "GET /li")).collect();
            let answer = rest(begin(address, "GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
            drop(idle);
            answer
        });
        let answer = answer.await.unwrap();
        assert!(answer.ends_with("ok\n"), "{answer}");
    }

    #[tokio::test]
    async fn held_connections_do_not_stop_the_probes() {
        const CLOSE: &str = "Host: a\r\nConnection: close\r\n\r\n";
        let (address, ..) = start().await;
        let answers = spawn_blocking(move || {
            // Each has been answered and stays open.
            let held: Vec<Client> = (0..CONNECTIONS)
                .map(|_| {
                    let mut stream = begin(address, "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n");
                    let mut head = [0; 15];
                    stream.read_exact(&mut head).unwrap();
                    stream
                })
                .collect();
            let began = Instant::now();
            let probe = rest(begin(address, &format!("GET /livez HTTP/1.1\r\n{CLOSE}")));
            let waited = began.elapsed();
            drop(held);
            (probe, waited)
        });
        let (probe, waited) = answers.await.unwrap();
        assert!(probe.ends_with("ok\n"), "{probe}");
        assert!(waited < LIFE / 2, "before a held connection ends: {waited:?}");
    }

    #[tokio::test]
    async fn an_endless_response_is_complete_when_its_connection_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let endless = |Extension(closing): Extension<ConnectionClosing>| async move {
            let lines = stream::repeat("more\n").then(async |line| {
                tokio::task::yield_now().await;
                Ok::<_, Infallible>(line)
            });
            Body::from_stream(lines.take_until(closing.0.cancelled_owned()))
        };
        let shutdown = CancellationToken::new();
        let serving = tokio::spawn(serve(listener, Router::new().route("/endless", get(endless)), shutdown.clone()));
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let answer = spawn_blocking(move || {
            let mut stream = begin(address, "GET /endless HTTP/1.1\r\nHost: a\r\n\r\n");
            let mut head = [0; 15];
            stream.read_exact(&mut head).unwrap();
            begun.send(()).unwrap();
            rest(stream)
        });
        has_begun.await.unwrap();
        shutdown.cancel();
        let answer = timeout(PATIENCE, answer).await.unwrap().unwrap();
        assert!(answer.ends_with("\r\n0\r\n\r\n"), "{:?}", answer.get(answer.len() - 20..));
        serving.await.unwrap();
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_ends_with_the_server() {
        let (address, shutdown, serving) = start().await;
        let stream = spawn_blocking(move || {
            let mut stream = begin(address, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
            let mut head = [0; 15];
            stream.read_exact(&mut head).unwrap();
            assert_eq!(&head, b"HTTP/1.1 200 OK");
            stream
        });
        let stream = stream.await.unwrap();
        shutdown.cancel();
        assert!(timeout(PATIENCE, serving).await.is_ok());
        drop(stream);
    }
}
