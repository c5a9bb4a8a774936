//! The simulated API server as a process, and its API besides that of Kubernetes.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use http::Request;
use kaudit_test_support::child::ChildGuard;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::Value;
use tokio::time::sleep;

use super::{PATIENCE, POLL_EVERY};
use crate::process::{cpu, has_ended};

/// A process of the simulated API server, which is killed when the value is dropped.
pub(crate) struct Simulated {
    child: ChildGuard,
    pub(crate) kubeconfig: PathBuf,
}

impl Simulated {
    /// Starts it, and waits until it is ready.
    pub(crate) async fn start(folder: &Path, objects: u32, namespaces: u32) -> Result<Self> {
        let kubeconfig = folder.join("simulated.kubeconfig");
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["serve", &format!("--objects={objects}"), &format!("--namespaces={namespaces}")]);
        command.arg("--kubeconfig").arg(&kubeconfig).stdin(Stdio::null()).stdout(Stdio::null());
        let child = ChildGuard(command.spawn().context("starting the simulated API server")?);
        let began = Instant::now();
        while fs::metadata(&kubeconfig).is_err() {
            ensure!(!has_ended(child.0.id()) && began.elapsed() < PATIENCE, "the simulated API server did not start");
            sleep(POLL_EVERY).await;
        }
        Ok(Self { child, kubeconfig })
    }

    /// Returns its CPU time in seconds.
    pub(crate) fn cpu(&self) -> Result<f64> {
        Ok(cpu(self.child.0.id())?.as_secs_f64())
    }

    pub(crate) async fn client(&self) -> Result<Client> {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig)?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        config.proxy_url = None;
        Ok(Client::try_from(config)?)
    }

    async fn simulation(&self, request: http::request::Builder) -> Result<Value> {
        Ok(self.client().await?.request(request.body(Vec::new())?).await?)
    }

    /// Returns the counters since the last reset.
    pub(crate) async fn counters(&self) -> Result<Value> {
        self.simulation(Request::get("/simulated/counters")).await
    }

    pub(crate) async fn reset(&self) -> Result<()> {
        self.simulation(Request::post("/simulated/counters")).await.map(drop)
    }

    pub(crate) async fn relabel(&self) -> Result<()> {
        self.simulation(Request::post("/simulated/relabel")).await.map(drop)
    }

    /// Makes `count` changes as fast as possible, and waits for them. `status_share` is the percentage that affects
    /// only the status.
    pub(crate) async fn change(&self, count: u32, status_share: u32) -> Result<()> {
        let path = format!("/simulated/changes?per-second=1000000&status-share={status_share}&count={count}");
        self.simulation(Request::post(path)).await?;
        while self.counters().await?["made"] != count {
            sleep(POLL_EVERY).await;
        }
        Ok(())
    }
}

/// Returns the paths of the lists of all served kinds. For several connections, lists of the kinds with the most
/// objects are split by namespace, so that all connections end at about the same time.
pub(crate) async fn lists(client: &Client, connections: usize) -> Result<Vec<String>> {
    let mut lists = Vec::new();
    let groups: Value = client.request(Request::get("/apis").body(Vec::new())?).await?;
    let groups = groups["groups"].as_array().context("no groups")?.iter();
    let versions =
        groups.filter_map(|group| Some(format!("/apis/{}", group["preferredVersion"]["groupVersion"].as_str()?)));
    let namespaces: Value = client.request(Request::get("/api/v1/namespaces").body(Vec::new())?).await?;
    let namespaces = namespaces["items"].as_array().context("no namespaces")?;
    for root in std::iter::once("/api/v1".to_owned()).chain(versions) {
        let resources: Value = client.request(Request::get(&root).body(Vec::new())?).await?;
        for resource in resources["resources"].as_array().context("no resources")? {
            let plural = resource["name"].as_str().context("no name")?;
            let is_listed = resource["verbs"].as_array().is_some_and(|verbs| verbs.iter().any(|verb| verb == "list"));
            if connections > 1 && matches!(plural, "pods" | "replicasets" | "deployments") {
                let names = namespaces.iter().filter_map(|namespace| namespace["metadata"]["name"].as_str());
                lists.extend(names.map(|name| format!("{root}/namespaces/{name}/{plural}")));
            } else if is_listed {
                lists.push(format!("{root}/{plural}"));
            }
        }
    }
    Ok(lists)
}
