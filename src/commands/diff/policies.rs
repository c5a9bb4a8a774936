//! Evaluates two sets of policies on the same objects.

use std::{path::Path, sync::Arc};

use anyhow::Context as _;
use tokio::{
    sync::mpsc::{self, Receiver, Sender},
    task::{JoinSet, spawn_blocking},
};
use tokio_util::sync::CancellationToken;

use super::commit::{self, CommitPath};
use crate::{
    audit::{
        diff::{self, AuditDiff, Compared},
        result::AuditResult,
    },
    cli::diff::{DiffArgs, DiffSide},
    judge::{
        set::PolicySet,
        sources::{FileSource, PolicySource},
    },
    output::progress,
    run::{
        checked,
        connect::connect,
        exceptions, policies,
        sources::PolicySources,
        wiring::{AuditRules, CHANGES, INTERRUPTED, Wiring, settings_once},
    },
    source::{
        change::Change,
        informer::{Informer, ReadOptions},
        manifest,
        selection::Selection,
    },
};

/// Loads both sets, evaluates them on the selected objects, and compares the results.
///
/// # Errors
/// If policies are refused, nothing can be read, or `stop` comes first.
pub(super) async fn compare(options: &DiffArgs, stop: CancellationToken) -> anyhow::Result<AuditDiff> {
    anyhow::ensure!(
        options.source.once || !options.source.manifests.filename.is_empty(),
        "there is nothing to check with these policies: give manifests with --filename, or the cluster of your kubeconfig with \
         --once; or compare two audits that kaudit check wrote with -o json"
    );
    let old = NamedPolicies::load(options, &options.old, &options.new).await?;
    let new = NamedPolicies::load(options, &options.new, &options.old).await?;
    let exceptions = exceptions::load(&options.exceptions).await?;
    // Exceptions must match rules of the new policies; the old ones need not have these rules.
    let rules = [
        AuditRules { exceptions: exceptions::load(&options.exceptions).await?, policies: Arc::clone(&old.policies) },
        AuditRules { exceptions: exceptions.checked(&new.policies)?, policies: Arc::clone(&new.policies) },
    ];
    let (before, after) = Box::pin(judge(options, rules, stop)).await?;
    Ok(diff::compare((&old.name, &before), (&new.name, &after), Compared::Policies))
}

/// A set of policies and its name.
struct NamedPolicies {
    name: String,
    policies: Arc<PolicySet>,
}

impl NamedPolicies {
    /// Loads the policies of one side. A commit without a path takes that of the `other` side.
    async fn load(options: &DiffArgs, side: &DiffSide, other: &DiffSide) -> anyhow::Result<Self> {
        let bundles = options.reading.settings()?;
        let (name, sources) = match side {
            DiffSide::Source(source) => {
                let followed = PolicySources::follow(vec![source.clone()], &options.cluster, &bundles).await?;
                (source.to_string(), followed.now())
            }
            DiffSide::Commit { revision, path } => {
                let place = path.clone().map_or_else(|| place_of(other), CommitPath::Named);
                let revision = revision.clone();
                let read = spawn_blocking(move || commit::read(&revision, &place));
                let tree = read.await.context("reading the commit")??;
                (tree.name.to_string(), vec![FileSource::Tree(Arc::new(tree))])
            }
        };
        let loaded = policies::load(&sources, &options.load_options()).await?;
        let policies = loaded.with_context(|| format!("loading the policies of {name}"))?;
        policies::log_problems(&policies, options.scope.shard());
        Ok(Self { name, policies: Arc::new(policies) })
    }
}

/// Returns the path of the policies in a commit if none is given.
fn place_of(other: &DiffSide) -> CommitPath {
    match other {
        DiffSide::Source(PolicySource::Path(path)) => CommitPath::Here(path.clone()),
        DiffSide::Commit { path: Some(path), .. } => CommitPath::Named(path.clone()),
        _ => CommitPath::Here(Path::new("policies").to_owned()),
    }
}

/// Reads the objects once, and evaluates both sets on them.
async fn judge(
    options: &DiffArgs,
    rules: [AuditRules; 2],
    stop: CancellationToken,
) -> anyhow::Result<(AuditResult, AuditResult)> {
    let mut files = manifest::files(&options.source.manifests.filename)?;
    manifest::download(&mut files).await?;
    let of_files = !options.source.manifests.filename.is_empty();
    let selection = Selection { of_files, ..options.scope.selection(rules.iter().map(|rules| &rules.policies)) };
    let (mut reading, mut client) = (None, None);
    let mut helpers = JoinSet::new();
    let (changes, received) = mpsc::channel(CHANGES);
    let wired = rules.map(|rules| {
        let (mut wiring, changes, _) = Wiring::new(CHANGES, &rules.policies, stop.clone(), Arc::default());
        wiring.select(&selection);
        (wiring, rules, changes)
    });
    if options.source.manifests.filename.is_empty() {
        let connecting = stop.run_until_cancelled(connect(&options.cluster, &options.scope));
        let (clients, served) = connecting.await.context(INTERRUPTED)??;
        client = Some(clients.plain.clone());
        helpers.spawn(
            Informer::new(clients, selection, ReadOptions::once(options.source.manifests.secrets), changes).run(served),
        );
        helpers.spawn(progress::show(wired[1].0.progress()));
    } else {
        let secrets = options.source.manifests.secrets;
        reading = Some(spawn_blocking(move || manifest::read(&files, &selection, secrets, false, &changes)));
    }
    let [(before, old, to_before), (after, new, to_after)] = wired;
    helpers.spawn(send_to_both(received, [to_before, to_after]));
    let settings = |rules: &AuditRules| {
        let DiffArgs { source, sync, scope, grouping, .. } = options;
        settings_once(source, sync, scope.shard(), grouping.group_by, &rules.policies)
    };
    let (old_settings, new_settings) = (settings(&old), settings(&new));
    let before = tokio::spawn(before.judge_once(old_settings, old));
    let after = after.judge_once(new_settings, new).await?;
    let before = before.await.context("evaluation failed, which is a bug")??;
    if let Some(reading) = reading {
        let content = reading.await.context("reading the manifests")?;
        checked::of_manifests(&after, &options.scope, &options.source.manifests.filename, &content)?;
    } else if let Some(client) = client {
        checked::of_cluster(&after, &client).await?;
    }
    Ok((before, after))
}

/// Sends each change to both pipelines, until the source or both pipelines have ended.
async fn send_to_both(mut from: Receiver<Change>, [first, second]: [Sender<Change>; 2]) {
    while let Some(change) = from.recv().await {
        let (sent_first, sent_second) = tokio::join!(first.send(change.clone()), second.send(change));
        if sent_first.is_err() && sent_second.is_err() {
            return;
        }
    }
}
