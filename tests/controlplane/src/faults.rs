//! What may happen to a control plane.
//!
//! All of it fails for an existing cluster, and for a server that is not in the state it needs.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::{plane::ControlPlane, server::POLL};

/// How long etcd may take for an answer.
const ETCD_TIMEOUT: Duration = Duration::from_secs(10);

impl ControlPlane {
    /// Kills the API server without notice.
    pub fn kill_apiserver(&self) -> Result<()> {
        self.own()?.apiserver.kill()
    }

    /// Starts the API server again, at the same port, and waits until it is ready.
    ///
    /// # Errors
    ///
    /// When it does not get ready, for example because etcd is away.
    pub async fn start_apiserver(&self) -> Result<()> {
        let own = self.own()?;
        own.apiserver.start()?;
        self.wait_ready(own.start_timeout).await
    }

    /// Freezes the API server: connections stay open, nothing is answered.
    pub fn pause_apiserver(&self) -> Result<()> {
        self.own()?.apiserver.signal("STOP")
    }

    /// Lets a frozen API server go on.
    pub fn resume_apiserver(&self) -> Result<()> {
        self.own()?.apiserver.signal("CONT")
    }

    /// Kills etcd without notice; what it has acknowledged stays.
    pub fn kill_etcd(&self) -> Result<()> {
        self.own()?.etcd.kill()
    }

    /// Starts etcd again, with the same data, and waits until it answers.
    ///
    /// # Errors
    ///
    /// When it does not answer in time.
    pub async fn start_etcd(&self) -> Result<()> {
        let own = self.own()?;
        own.etcd.start()?;
        let deadline = Instant::now() + own.start_timeout;
        while let Err(error) = self.etcd_revision().await {
            if !own.etcd.is_running() || Instant::now() > deadline {
                bail!("etcd does not get ready: {error:#}\n{}", own.etcd.log_tail());
            }
            sleep(POLL).await;
        }
        Ok(())
    }

    /// Freezes etcd: the API server waits for it.
    pub fn pause_etcd(&self) -> Result<()> {
        self.own()?.etcd.signal("STOP")
    }

    /// Lets a frozen etcd go on.
    pub fn resume_etcd(&self) -> Result<()> {
        self.own()?.etcd.signal("CONT")
    }

    /// Makes etcd forget all but the present state, and returns the revision of that.
    ///
    /// The API server's own cache may still serve older versions, until it is started again.
    ///
    /// # Errors
    ///
    /// When etcd does not answer.
    pub async fn compact_etcd(&self) -> Result<i64> {
        let revision = self.etcd_revision().await?;
        let request = json!({"revision": revision.to_string(), "physical": true});
        match self.ask_etcd("/v3/kv/compaction", request).await {
            // Nothing was written since the last compaction.
            Err(error) if error.to_string().contains("required revision has been compacted") => Ok(revision),
            answer => answer.map(|_| revision),
        }
    }

    async fn etcd_revision(&self) -> Result<i64> {
        let status = self.ask_etcd("/v3/maintenance/status", json!({})).await?;
        let revision = &status["header"]["revision"];
        revision.as_str().and_then(|text| text.parse().ok()).context("etcd tells no revision")
    }

    /// Asks etcd over its JSON gateway.
    async fn ask_etcd(&self, path: &'static str, request: Value) -> Result<Value> {
        let address = self.own()?.etcd_address.clone();
        spawn_blocking(move || post(&address, path, &request.to_string())).await?
    }
}

/// Posts JSON over plain HTTP and returns the JSON that comes back.
fn post(address: &str, path: &str, body: &str) -> Result<Value> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(ETCD_TIMEOUT))?;
    let length = body.len();
    // Version 1.0 has neither chunks nor connections that stay open.
    write!(
        stream,
        "POST {path} HTTP/1.0\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    let (head, body) = response.split_once("\r\n\r\n").context("no HTTP response")?;
    let status = head.split(' ').nth(1);
    if status != Some("200") {
        bail!("etcd answers {path} with {}: {body}", status.unwrap_or_default());
    }
    Ok(serde_json::from_str(body)?)
}
