//! The simulation's plans on the real control plane, to find differences between the simulated server and a real one.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use kaudit_controlplane::{ControlPlane, Options, Tool, User, require, require_tool};
use kaudit_simulation::{
    cluster::{self, Contents, HOME, ObjectName},
    comparison::{ExpectedFindings, ListedObjects},
    plan::{self, RunStep},
    policy_files::PolicyFiles,
    replica::ReplicaSettings,
    server::At,
};
use kaudit_test_support::settings::setting;
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, PostParams, TypeMeta},
    core::GroupVersionKind,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::sleep;

use crate::{
    chart::render,
    support::{PATIENCE, Running, finish, kaudit},
};

/// Maximum pause between two steps.
const LONGEST_WAIT: Duration = Duration::from_millis(200);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_of_the_simulation_converge_on_a_real_server() {
    if !require() || !require_tool(Tool::Helm) {
        return;
    }
    let first: u64 = setting("KAUDIT_TEST_SEED").unwrap_or(1);
    for seed in first..first.saturating_add(setting("KAUDIT_TEST_PLANS").unwrap_or(3)) {
        let begun = Instant::now();
        let steps = plan::steps(seed);
        let is_sharded = steps.iter().any(|step| matches!(step, RunStep::Configure(settings) if settings.sharded));
        let mut run = PlannedRun::start(seed, is_sharded).await;
        for (number, step) in steps.iter().enumerate() {
            let made = run.step(step).await;
            made.unwrap_or_else(|error| panic!("seed {seed}, step {number}, {step:?}: {error:#}\n{}", run.logs()));
        }
        run.end().await.unwrap();
        println!("seed {seed}: {} steps in {:?}", steps.len(), begun.elapsed());
    }
}

/// The execution of a plan.
struct PlannedRun {
    plane: ControlPlane,
    client: Client,
    user: User,
    /// The working directory of kaudit.
    folder: TempDir,
    settings: ReplicaSettings,
    files: PolicyFiles,
    replicas: BTreeMap<u8, Running>,
    kills: usize,
}

impl PlannedRun {
    async fn start(seed: u64, is_sharded: bool) -> Self {
        let plane = ControlPlane::start(Options { controller_manager: true, ..Options::default() }).await.unwrap();
        let client = plane.admin().unwrap();
        let folder = TempDir::with_prefix(format!("seed-{seed}-")).unwrap();
        let files = PolicyFiles::new(folder.path().to_owned()).unwrap();
        plane
            .apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}}).to_string())
            .await
            .unwrap();
        let documents = cluster::definitions().map(|definition| format!("---\n{definition}\n"));
        plane.apply(&documents.collect::<String>()).await.unwrap();
        plane.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"]).await.unwrap();
        let rendered =
            render(HOME, &["record={events,reports,status}", if is_sharded { "shards=3" } else { "replicas=3" }]).await;
        rendered.install(&plane).await;
        let user = plane.service_account(HOME, rendered.name("ServiceAccount")).await.unwrap();
        Self {
            plane,
            client,
            user,
            folder,
            files,
            settings: ReplicaSettings::default(),
            replicas: BTreeMap::new(),
            kills: 0,
        }
    }

    /// Executes a step; faults that only the simulation supports are skipped.
    async fn step(&mut self, step: &RunStep) -> anyhow::Result<()> {
        match step {
            RunStep::Write(name, contents) => self.write(*name, contents).await?,
            RunStep::Delete(name) => self.delete(*name).await?,
            RunStep::Recreate(name, contents) => {
                self.delete(*name).await?;
                self.write(*name, contents).await?;
            }
            RunStep::SetPolicy(policy) => drop(self.files.set(policy)?),
            RunStep::RemovePolicy(number) if self.files.policies.len() > 1 => drop(self.files.remove(*number)?),
            RunStep::Excuse(excuse) if excuse.by_file => self.files.excuse(excuse)?,
            RunStep::EndExcuse(excuse) if excuse.by_file => self.files.end_excuse(excuse)?,
            RunStep::Excuse(excuse) => self.apply(&excuse.exception()).await?,
            RunStep::EndExcuse(excuse) => excuse.with_at(|at| self.remove(at)).await?,
            RunStep::Configure(settings) => {
                self.stop(|_| true).await?;
                // With a real clock, one Event per second takes too long.
                self.settings = ReplicaSettings { in_cluster: false, slow_events: false, ..*settings };
            }
            RunStep::Start(number) => self.start_replica(*number).await,
            RunStep::StartUnread(..) => self.start_replica(0).await,
            RunStep::Kill(number) => {
                if let Some(replica) = self.replicas.remove(number) {
                    replica.kill();
                    self.kills += 1;
                }
            }
            RunStep::Stop(number) => self.stop(|other| other == *number).await?,
            RunStep::Compact => drop(self.plane.compact_etcd().await?),
            RunStep::Wait(milliseconds) => {
                sleep(LONGEST_WAIT.min(Duration::from_millis((*milliseconds).into()))).await;
            }
            RunStep::Compare | RunStep::CompareRestarted(_) | RunStep::CompareStopped => self.compare().await?,
            _ => {}
        }
        Ok(())
    }

    fn api(&self, (api_version, kind, namespace, _): At<'_>) -> Api<DynamicObject> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        if namespace.is_empty() {
            Api::all_with(self.client.clone(), &resource)
        } else {
            Api::namespaced_with(self.client.clone(), namespace, &resource)
        }
    }

    async fn write(&self, name: ObjectName, contents: &Contents) -> anyhow::Result<()> {
        let owner = match name.owner(contents) {
            Some(owner) => owner.with_at(|at| (self.api(at), at.3.to_owned())),
            None => return self.apply(&name.object(contents, None)).await,
        };
        let owner = owner.0.get_opt(&owner.1).await?.map(serde_json::to_value).transpose()?;
        self.apply(&name.object(contents, owner.as_ref())).await
    }

    /// Replaces an object; does nothing if its namespace is missing or terminating.
    async fn apply(&self, object: &Value) -> anyhow::Result<()> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let (namespace, name) = (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
        let api = self.api((&api_version, &kind, &namespace, &name));
        let mut object: DynamicObject = serde_json::from_value(object.clone())?;
        if let Some(known) = api.get_opt(&name).await? {
            object.metadata.resource_version = known.metadata.resource_version;
            ignore(&[404, 409, 403], api.replace(&name, &PostParams::default(), &object).await)
        } else {
            ignore(&[404, 409, 403], api.create(&PostParams::default(), &object).await)
        }
    }

    fn delete(&self, name: ObjectName) -> impl Future<Output = anyhow::Result<()>> + use<> {
        name.with_at(|at| self.remove(at))
    }

    fn remove(&self, at: At<'_>) -> impl Future<Output = anyhow::Result<()>> + use<> {
        let (api, name) = (self.api(at), at.3.to_owned());
        async move { ignore(&[404, 409], api.delete(&name, &DeleteParams::default()).await) }
    }

    async fn start_replica(&mut self, number: u8) {
        let is_running = self.replicas.get(&number).is_some_and(Running::is_alive);
        if is_running || number >= self.settings.replicas {
            return;
        }
        let mut command = kaudit(self.user.kubeconfig_path(), &[]);
        command.current_dir(self.folder.path());
        let mut arguments = self.settings.long_arguments(number);
        // Records must not be delayed by the rate limit.
        arguments.push("--events-per-second=1000".to_owned());
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.replicas.insert(number, Running::launch(command, &arguments).await);
    }

    async fn stop(&mut self, which: impl Fn(u8) -> bool) -> anyhow::Result<()> {
        for number in 0..u8::MAX {
            if which(number)
                && let Some(replica) = self.replicas.remove(&number)
            {
                let code = replica.stop().await;
                ensure!(code == Some(0), "replica {number} ended with {code:?}");
            }
        }
        Ok(())
    }

    /// Waits until everything has converged.
    async fn compare(&mut self) -> anyhow::Result<()> {
        for number in 0..if self.settings.sharded { self.settings.replicas } else { 1 } {
            if self.settings.sharded || self.replicas.is_empty() {
                self.start_replica(number).await;
            }
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.difference().await {
                Err(error) if Instant::now() > deadline => bail!("{error:#}\n{}", self.logs()),
                Err(_) => sleep(Duration::from_millis(500)).await,
                Ok(()) => return Ok(()),
            }
        }
    }

    async fn difference(&self) -> anyhow::Result<()> {
        let cluster = self.list().await?;
        let expected =
            ExpectedFindings::new(&cluster, self.files.policies.values(), &self.settings, &self.files.excused);
        expected.compare_reports(&cluster)?;
        expected.compare_announcements("Events", &cluster, &cluster.events()?, self.kills)?;
        expected.compare_status(&cluster, &self.settings)?;
        let mut arguments = vec!["check".to_owned(), "--once".to_owned(), "-o=json".to_owned()];
        arguments.extend(self.settings.arguments());
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut command = kaudit(self.user.kubeconfig_path(), &arguments);
        command.current_dir(self.folder.path());
        let ended = finish(command).await;
        let result = serde_json::from_str(&ended.stdout).with_context(|| ended.stderr.clone());
        let code = ended.code.and_then(|code| u8::try_from(code).ok()).context("it was killed")?;
        expected.compare_once(result.map(|result| (code, result)))
    }

    async fn list(&self) -> anyhow::Result<ListedObjects> {
        let mut lists = Vec::new();
        for (api_version, kind) in ListedObjects::kinds() {
            let objects = self.api((api_version, kind, "", "")).list(&ListParams::default()).await?;
            let objects = objects.items.into_iter().map(|mut object| {
                // Items of lists have no kind of their own.
                object.types = Some(TypeMeta { api_version: api_version.to_owned(), kind: kind.to_owned() });
                serde_json::to_value(object)
            });
            lists.push((kind, objects.collect::<Result<Vec<_>, _>>()?));
        }
        Ok(ListedObjects::from_lists(lists))
    }

    fn logs(&self) -> String {
        let logs = self.replicas.values().map(Running::log);
        let last = |log: String| log.lines().rev().take(30).collect::<Vec<_>>().join("\n");
        logs.map(last).collect::<Vec<_>>().join("\n---\n")
    }

    async fn end(mut self) -> anyhow::Result<()> {
        self.stop(|_| true).await?;
        self.plane.stop().await
    }
}

/// Ignores refusals with one of these codes.
fn ignore<T>(codes: &[u16], outcome: kube::Result<T>) -> anyhow::Result<()> {
    match outcome {
        Err(kube::Error::Api(status)) if codes.contains(&status.code) => Ok(()),
        other => Ok(other.map(drop)?),
    }
}
