//! A server that accepts notifications, or fails like real servers.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, Uri},
};
use data_encoding::BASE64;
use ring::hmac;
use serde_json::Value;
use tokio::{net::TcpListener, task::JoinHandle};

/// A request that was answered with 200.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Request {
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Verifies the signature as specified by Standard Webhooks.
    pub(super) fn verify(&self, secret: &str) {
        let key = BASE64.decode(secret.strip_prefix("whsec_").unwrap().as_bytes()).unwrap();
        let start = format!("{}.{}.", self.header("webhook-id"), self.header("webhook-timestamp"));
        let signed = [start.as_bytes(), &self.body].concat();
        let signature =
            BASE64.decode(self.header("webhook-signature").strip_prefix("v1,").unwrap().as_bytes()).unwrap();
        hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, &key), &signed, &signature).unwrap();
        let sent: i64 = self.header("webhook-timestamp").parse().unwrap();
        assert!((jiff::Timestamp::now().as_second() - sent).abs() < 300);
    }
}

#[derive(Clone)]
enum ReceiverAnswer {
    With(StatusCode, String),
    Never,
}

#[derive(Default)]
struct Seen {
    taken: Vec<Request>,
    /// Number of requests by path, whatever the response.
    attempts: HashMap<String, usize>,
    answers: HashMap<String, ReceiverAnswer>,
}

/// A receiver on loopback, which accepts everything by default.
pub(super) struct Receiver {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    serving: Option<JoinHandle<()>>,
}

impl Receiver {
    pub(super) async fn start() -> Self {
        let seen = Arc::default();
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        Self { address, seen, serving: None }.up().await
    }

    /// Serves at its previous address, if it has one.
    pub(super) async fn up(mut self) -> Self {
        // Its previous owner has ended, but connections may take a moment to close.
        let listener = crate::support::wait_for("the port", || TcpListener::bind(self.address).ok_in_time()).await;
        self.address = listener.local_addr().unwrap();
        let router = Router::new().fallback(take).with_state(Arc::clone(&self.seen));
        self.serving = Some(tokio::spawn(async move { axum::serve(listener, router).await.unwrap() }));
        self
    }

    /// Refuses further connections.
    pub(super) async fn down(mut self) -> Self {
        let serving = self.serving.take().unwrap();
        serving.abort();
        drop(serving.await);
        self
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(super) fn answer(&self, path: &str, status: u16, text: &str) {
        let answer = ReceiverAnswer::With(StatusCode::from_u16(status).unwrap(), text.to_owned());
        self.seen.lock().unwrap().answers.insert(path.to_owned(), answer);
    }

    /// Accepts requests and never answers.
    pub(super) fn hang(&self, path: &str) {
        self.seen.lock().unwrap().answers.insert(path.to_owned(), ReceiverAnswer::Never);
    }

    pub(super) fn taken(&self) -> Vec<Request> {
        self.seen.lock().unwrap().taken.clone()
    }

    pub(super) fn attempts(&self, path: &str) -> usize {
        self.seen.lock().unwrap().attempts.get(path).copied().unwrap_or_default()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if let Some(serving) = &self.serving {
            serving.abort();
        }
    }
}

trait InTime<T> {
    async fn ok_in_time(self) -> Option<T>;
}

impl<T, F: Future<Output = std::io::Result<T>>> InTime<T> for F {
    async fn ok_in_time(self) -> Option<T> {
        self.await.ok()
    }
}

async fn take(State(seen): State<Arc<Mutex<Seen>>>, uri: Uri, headers: HeaderMap, body: Bytes) -> (StatusCode, String) {
    let path = uri.path().to_owned();
    let answer = {
        let mut seen = seen.lock().unwrap();
        *seen.attempts.entry(path.clone()).or_default() += 1;
        let answer = seen.answers.get(&path).cloned().unwrap_or(ReceiverAnswer::With(StatusCode::OK, String::new()));
        if let ReceiverAnswer::With(StatusCode::OK, _) = &answer {
            seen.taken.push(Request { path, headers, body });
        }
        answer
    };
    match answer {
        ReceiverAnswer::With(status, text) => (status, text),
        ReceiverAnswer::Never => std::future::pending().await,
    }
}
