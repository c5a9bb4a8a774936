//! A proxy to the API server on which the test can delay or answer requests, for situations that a real server does not
//! produce.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use futures::StreamExt as _;
use kaudit_controlplane::ControlPlane;
use serde_json::json;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

/// How a request is handled.
pub(crate) enum Act {
    /// It is forwarded.
    Pass,
    /// It is held until [`Proxy::release`], then forwarded.
    Hold,
    /// It is delayed, then forwarded.
    Wait(Duration),
    /// It is answered without the API server.
    Answer(Response),
}

impl Act {
    /// Answers with the status of a failed request, as the API server does.
    pub(crate) fn refuse(code: StatusCode, reason: &str, message: &str) -> Self {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason,
            "code": code.as_u16(), "message": message});
        let answer = (code, [(header::CONTENT_TYPE, "application/json")], status.to_string());
        Self::Answer(answer.into_response())
    }
}

/// Determines how each request is handled.
type ProxyRule = dyn Fn(&Parts) -> Act + Send + Sync;

#[derive(Clone)]
struct Way {
    client: kube::Client,
    rule: Arc<ProxyRule>,
    held: watch::Receiver<bool>,
    cuts: watch::Receiver<u64>,
}

/// A plain HTTP proxy that authenticates to the API server as admin. It ends when it is dropped.
pub(crate) struct Proxy {
    kubeconfig: PathBuf,
    held: watch::Sender<bool>,
    cuts: watch::Sender<u64>,
    task: JoinHandle<()>,
    _files: tempfile::TempDir,
}

impl Proxy {
    /// Holds requests for `path` until [`Proxy::release`].
    pub(crate) async fn holding(plane: &ControlPlane, path: &str) -> Self {
        let path = path.to_owned();
        Self::start(plane, move |request| if request.uri.path() == path { Act::Hold } else { Act::Pass }).await
    }

    /// Answers requests for `path` with `body`.
    pub(crate) async fn answering(plane: &ControlPlane, path: &str, body: String) -> Self {
        let path = path.to_owned();
        let answer = move || ([(header::CONTENT_TYPE, "application/json")], body.clone()).into_response();
        let rule = move |request: &Parts| if request.uri.path() == path { Act::Answer(answer()) } else { Act::Pass };
        Self::start(plane, rule).await
    }

    /// Handles each request as `rule` determines.
    pub(crate) async fn start(plane: &ControlPlane, rule: impl Fn(&Parts) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let files = tempfile::tempdir().unwrap();
        let kubeconfig = kubeconfig(files.path(), &format!("http://{}", listener.local_addr().unwrap()));
        let (held, cuts) = (watch::channel(true).0, watch::channel(0).0);
        let way = Way {
            client: plane.admin().unwrap(),
            rule: Arc::new(rule),
            held: held.subscribe(),
            cuts: cuts.subscribe(),
        };
        let router = Router::new().fallback(forward).with_state(way);
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { kubeconfig, held, cuts, task, _files: files }
    }

    /// Returns a kubeconfig for this proxy.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Forwards all held requests.
    pub(crate) fn release(&self) {
        self.held.send_replace(false);
    }

    /// Ends all responses in progress, in particular watches, cleanly.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Writes a kubeconfig for a server without authentication.
pub(crate) fn kubeconfig(directory: &Path, server: &str) -> PathBuf {
    let path = directory.join("kubeconfig");
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": server}}],
        "users": [{"name": "test", "user": {}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    });
    std::fs::write(&path, config.to_string()).unwrap();
    path
}

async fn forward(State(mut way): State<Way>, request: Request) -> Response {
    let (mut head, body) = request.into_parts();
    match (way.rule)(&head) {
        Act::Pass => {}
        Act::Hold => drop(way.held.wait_for(|held| !held).await),
        Act::Wait(delay) => tokio::time::sleep(delay).await,
        Act::Answer(response) => return response,
    }
    head.headers.remove(header::HOST);
    let body = to_bytes(body, usize::MAX).await.unwrap().to_vec();
    let cuts = *way.cuts.borrow();
    match way.client.send(Request::from_parts(head, body.into())).await {
        Ok(response) => response.map(|body| {
            let cut = async move { drop(way.cuts.wait_for(|now| *now > cuts).await) };
            Body::from_stream(Body::new(body).into_data_stream().take_until(Box::pin(cut)))
        }),
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}
