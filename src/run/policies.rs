//! Loads the policies at the start, and again whenever their sources change.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use tokio::{sync::mpsc, time::sleep};
use tracing::{error, warn};

use super::sources::PolicySources;
use crate::{
    audit::command::Command,
    blocking::spawn_blocking,
    judge::{
        files::{self, SourceFingerprint},
        last_good::LastGood,
        load_options::LoadOptions,
        set::PolicySet,
        sources::FileSource,
    },
    model::shard::Shard,
    rego::LoadError,
    telemetry::{Span, count},
};

/// How often files are polled, which also detects changes on network and overlay file systems and of `ConfigMap`s.
pub(super) const POLL: Duration = Duration::from_secs(1);

/// Loads policies for one result. The outer error is not about the policies.
pub(crate) async fn load(
    sources: &[FileSource],
    options: &LoadOptions,
) -> anyhow::Result<Result<PolicySet, LoadError>> {
    load_with(PolicySet::load_with, sources, options).await
}

/// Loads policies for a watch, without the files that are refused: these may be corrected later.
pub(crate) async fn load_followed(
    sources: &[FileSource],
    options: &LoadOptions,
) -> anyhow::Result<Result<PolicySet, LoadError>> {
    load_with(PolicySet::load_followed, sources, options).await
}

async fn load_with(
    load: fn(&[FileSource], &LoadOptions) -> Result<PolicySet, LoadError>,
    sources: &[FileSource],
    options: &LoadOptions,
) -> anyhow::Result<Result<PolicySet, LoadError>> {
    let (sources, options) = (sources.to_vec(), options.clone());
    loaded(move || load(&sources, &options)).await
}

/// Loads policies on a blocking thread, in a span of its own.
async fn loaded(
    load: impl FnOnce() -> Result<PolicySet, LoadError> + Send + 'static,
) -> anyhow::Result<Result<PolicySet, LoadError>> {
    let span = Span::begin("load policies");
    let loaded = spawn_blocking(load).await.context("loading the policies")?;
    match &loaded {
        Ok(set) => span.set(|| [("kaudit.policies", count(set.policies.len())), ("kaudit.rules", count(set.rules()))]),
        Err(_) => span.fail("refused"),
    }
    span.end();
    Ok(loaded)
}

/// Logs the problems of the policies, and that their lookups are limited to a shard.
pub(crate) fn log_problems(policies: &PolicySet, shard: Shard) {
    for problem in &policies.problems {
        if problem.is_refusal() { error!("{problem}") } else { warn!("{problem}") }
    }
    if !shard.is_whole() && !policies.inventory_reads().is_empty() {
        warn!(%shard, "Policies look up other objects, but find only those of this shard (and all Namespaces)");
    }
}

/// Loads the policies again when they have changed and then stayed the same for one poll.
pub(crate) struct Reloader {
    sources: PolicySources,
    options: LoadOptions,
    shard: Shard,
    /// The state that `in_force` was loaded from.
    loaded: SourceState,
    in_force: Arc<PolicySet>,
    last_good: LastGood,
}

/// Sources of policies, and the state of their files. It is taken before they are read, so that a change in the
/// meantime differs from the loaded state.
#[derive(Clone, PartialEq)]
pub(crate) struct SourceState {
    pub(crate) sources: Vec<FileSource>,
    /// `None` if it is unknown.
    files: Option<SourceFingerprint>,
}

impl SourceState {
    /// Returns the present state.
    pub(crate) async fn of(sources: &PolicySources) -> Self {
        let sources = sources.now();
        let paths = sources.iter().filter_map(FileSource::path).map(Path::to_owned).collect();
        let files = fingerprint(paths).await;
        Self { sources, files }
    }
}

impl Reloader {
    /// Makes a reloader for the policies in force and the state that they were loaded from.
    pub(crate) fn new(
        (sources, loaded): (PolicySources, SourceState),
        options: LoadOptions,
        shard: Shard,
        in_force: &Arc<PolicySet>,
    ) -> Self {
        let mut last_good = LastGood::default();
        last_good.learn(&loaded.sources, in_force);
        Self { sources, options, shard, loaded, in_force: Arc::clone(in_force), last_good }
    }

    /// Sends reloaded policies to the pipeline, until it has ended.
    pub(crate) async fn run(mut self, pipeline: mpsc::Sender<Command>) {
        let mut failed = false;
        let mut before = self.loaded.clone();
        while !pipeline.is_closed() {
            sleep(POLL).await;
            let now = SourceState::of(&self.sources).await;
            // Wait until all files are written.
            let at_rest = before == now;
            before = now.clone();
            if now == self.loaded || !at_rest {
                continue;
            }
            let reload = self.load(now.sources.clone()).await;
            self.loaded = now;
            let reload = match reload {
                Ok(reload) => reload,
                Err(error) => {
                    error!("{error:#}");
                    continue;
                }
            };
            // Unchanged policies are worth a message only after a failure.
            let was_failing = std::mem::replace(&mut failed, reload.is_err());
            if let Ok(policies) = &reload {
                let before = std::mem::replace(&mut self.in_force, policies.clone());
                let same = before.digest == policies.digest
                    && before.problems == policies.problems
                    && before.bundles == policies.bundles;
                if same && !was_failing {
                    continue;
                }
                log_problems(policies, self.shard);
            }
            // An error means that the pipeline has ended.
            let _ended = pipeline.send(Command::Reload(reload)).await;
        }
    }

    /// Loads what can be loaded. The outer error is not about the policies.
    async fn load(&mut self, sources: Vec<FileSource>) -> anyhow::Result<Result<Arc<PolicySet>, LoadError>> {
        let (options, last_good) = (self.options.clone(), self.last_good.clone());
        let (in_force, to_load) = (Arc::clone(&self.in_force), sources.clone());
        let loaded = loaded(move || last_good.load(&to_load, &options, &in_force)).await?;
        if let Ok(policies) = &loaded {
            self.last_good.learn(&sources, policies);
        }
        Ok(loaded.map(Arc::new))
    }
}

/// Returns a fingerprint of the files below `paths`; `None` if it cannot be computed.
pub(super) async fn fingerprint(paths: Vec<PathBuf>) -> Option<SourceFingerprint> {
    spawn_blocking(move || files::fingerprint(&paths)).await.ok()
}
