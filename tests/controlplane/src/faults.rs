//! Faults of a control plane.
//!
//! All methods fail for an existing cluster, and for a server that is not in the required state.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::{backup::DataBackup, plane::ControlPlane, server::POLL};

/// Timeout of a request to etcd.
const ETCD_TIMEOUT: Duration = Duration::from_secs(10);

impl ControlPlane {
    /// Kills the API server.
    pub fn kill_apiserver(&self) -> Result<()> {
        self.own()?.apiserver.kill()
    }

    /// Starts the API server again, at the same port, and waits until it is ready.
    ///
    /// # Errors
    ///
    /// If it does not become ready, for example because etcd is down.
    pub async fn start_apiserver(&self) -> Result<()> {
        let own = self.own()?;
        own.apiserver.start()?;
        self.wait_ready(own.start_timeout).await
    }

    /// Freezes the API server: connections stay open, and requests get no response.
    pub fn pause_apiserver(&self) -> Result<()> {
        self.own()?.apiserver.signal("STOP")
    }

    /// Resumes a frozen API server.
    pub fn resume_apiserver(&self) -> Result<()> {
        self.own()?.apiserver.signal("CONT")
    }

    /// Kills etcd; acknowledged writes are kept.
    pub fn kill_etcd(&self) -> Result<()> {
        self.own()?.etcd.kill()
    }

    /// Starts etcd again, with the same data, and waits until it responds.
    ///
    /// # Errors
    ///
    /// If it does not respond in time.
    pub async fn start_etcd(&self) -> Result<()> {
        let own = self.own()?;
        own.etcd.start()?;
        let deadline = Instant::now() + own.start_timeout;
        while let Err(error) = self.etcd_revision().await {
            if !own.etcd.is_running() || Instant::now() > deadline {
                bail!("etcd does not become ready: {error:#}\n{}", own.etcd.log_tail());
            }
            sleep(POLL).await;
        }
        Ok(())
    }

    /// Kills API server and etcd, copies etcd's data, and starts both again.
    ///
    /// # Errors
    ///
    /// If files cannot be copied, or a server does not start.
    pub async fn back_up(&self) -> Result<DataBackup> {
        self.kill_apiserver()?;
        self.kill_etcd()?;
        let backup = DataBackup::new(&self.etcd_data())?;
        self.start_etcd().await?;
        self.start_apiserver().await?;
        Ok(backup)
    }

    /// Kills API server and etcd, replaces etcd's data, and starts both again.
    ///
    /// # Errors
    ///
    /// If files cannot be copied, or a server does not start.
    pub async fn restore(&self, backup: &DataBackup) -> Result<()> {
        self.kill_apiserver()?;
        self.kill_etcd()?;
        backup.restore(&self.etcd_data())?;
        self.start_etcd().await?;
        self.start_apiserver().await
    }

    /// Freezes etcd: the API server waits for it.
    pub fn pause_etcd(&self) -> Result<()> {
        self.own()?.etcd.signal("STOP")
    }

    /// Resumes a frozen etcd.
    pub fn resume_etcd(&self) -> Result<()> {
        self.own()?.etcd.signal("CONT")
    }

    /// Compacts etcd to its current revision, and returns that.
    ///
    /// The API server's cache may still serve older versions until it is restarted.
    ///
    /// # Errors
    ///
    /// If etcd does not respond.
    pub async fn compact_etcd(&self) -> Result<i64> {
        let revision = self.etcd_revision().await?;
        let request = json!({"revision": revision.to_string(), "physical": true});
        match self.request_etcd("/v3/kv/compaction", request).await {
            // Nothing was written since the last compaction.
            Err(error) if error.to_string().contains("required revision has been compacted") => Ok(revision),
            answer => answer.map(|_| revision),
        }
    }

    async fn etcd_revision(&self) -> Result<i64> {
        let status = self.request_etcd("/v3/maintenance/status", json!({})).await?;
        let revision = &status["header"]["revision"];
        revision.as_str().and_then(|text| text.parse().ok()).context("the status of etcd has no revision")
    }

    /// Sends a request to etcd's JSON gateway.
    async fn request_etcd(&self, path: &'static str, request: Value) -> Result<Value> {
        let address = self.own()?.etcd_address.clone();
        spawn_blocking(move || post(&address, path, &request.to_string())).await?
    }
}

/// Posts JSON over plain HTTP and returns the JSON response.
fn post(address: &str, path: &str, body: &str) -> Result<Value> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(ETCD_TIMEOUT))?;
    let length = body.len();
    // HTTP 1.0 has neither chunks nor persistent connections.
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
