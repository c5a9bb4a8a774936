//! A way to the API server on which one path can be held up or answered by the test: for what a real server can't be
//! made to do.

use std::path::{Path, PathBuf};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use kaudit_controlplane::ControlPlane;
use serde_json::json;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

/// What happens to the one path.
#[derive(Clone)]
enum Trick {
    /// Nothing is answered while this is true.
    Hold(watch::Receiver<bool>),
    /// This is answered.
    Answer(String),
}

#[derive(Clone)]
struct Way {
    client: kube::Client,
    path: String,
    trick: Trick,
}

/// A proxy that speaks plain HTTP and asks the API server as the admin. It ends with its owner.
pub(crate) struct Proxy {
    kubeconfig: PathBuf,
    held: watch::Sender<bool>,
    task: JoinHandle<()>,
    _files: tempfile::TempDir,
}

impl Proxy {
    /// Holds up requests for `path` until [`Proxy::release`].
    pub(crate) async fn holding(plane: &ControlPlane, path: &str) -> Self {
        let (held, receiver) = watch::channel(true);
        Self::start(plane, path, Trick::Hold(receiver), held).await
    }

    /// Answers requests for `path` with `body`.
    pub(crate) async fn answering(plane: &ControlPlane, path: &str, body: String) -> Self {
        Self::start(plane, path, Trick::Answer(body), watch::channel(false).0).await
    }

    async fn start(plane: &ControlPlane, path: &str, trick: Trick, held: watch::Sender<bool>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let files = tempfile::tempdir().unwrap();
        let kubeconfig = kubeconfig(files.path(), &format!("http://{}", listener.local_addr().unwrap()));
        let way = Way { client: plane.admin().unwrap(), path: path.to_owned(), trick };
        let router = Router::new().fallback(forward).with_state(way);
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { kubeconfig, held, task, _files: files }
    }

    /// A kubeconfig that leads through it.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Lets everything through.
    pub(crate) fn release(&self) {
        self.held.send_replace(false);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Writes a kubeconfig for a server that asks nobody who they are.
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

async fn forward(State(way): State<Way>, request: Request) -> Response {
    if request.uri().path() == way.path {
        match way.trick {
            Trick::Hold(mut held) => drop(held.wait_for(|held| !held).await),
            Trick::Answer(body) => return ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
        }
    }
    let (mut head, body) = request.into_parts();
    head.headers.remove(header::HOST);
    let body = to_bytes(body, usize::MAX).await.unwrap().to_vec();
    match way.client.send(Request::from_parts(head, body.into())).await {
        Ok(response) => response.map(Body::new),
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}
