//! Checks that a run had objects: without objects, nothing is known to be clean, so the run fails.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, api::ListParams};
use tokio::sync::watch;
use tracing::warn;

use crate::{
    audit::{overview::Overview, result::AuditResult},
    cli::scope::ScopeArgs,
    cluster::{error::describe, identity::OWN_GROUP},
    model::{
        coverage::{Coverage, State},
        spelling::nearest,
    },
    source::manifest::{ManifestContent, is_stdin},
};

/// How many namespaces are listed to find the nearest name.
const NAMESPACES: u32 = 500;
/// How many paths an error about missing objects names at most.
const SHOWN_PATHS: usize = 3;

/// Checks that the manifests had objects, and some in each named namespace.
///
/// # Errors
/// If there was none, with the reason.
pub(crate) fn of_manifests(
    result: &AuditResult,
    scope: &ScopeArgs,
    paths: &[PathBuf],
    content: &ManifestContent,
) -> anyhow::Result<()> {
    let is_read = |namespace: &str| content.namespaces.contains(namespace);
    let there = || {
        let elsewhere = content.elsewhere.keys().flatten().map(String::as_str);
        content.namespaces.iter().map(Arc::as_ref).chain(elsewhere)
    };
    let missing: Vec<String> = scope
        .namespace
        .iter()
        .filter(|namespace| !is_read(namespace))
        .map(|namespace| format!("no object is in namespace {namespace:?}{}", hint(nearest(namespace, there()))))
        .collect();
    let unreadable = result.coverage.iter().find(|kind| kind.is_gap());
    if result.summary.objects > 0 {
        anyhow::ensure!(missing.is_empty() || unreadable.is_some(), "{}", missing.join("\n"));
        return Ok(());
    }
    let elsewhere: usize = content.elsewhere.values().sum();
    if let Some(why) = inactive(result).or_else(|| unreadable.map(|kind| kind.message.clone())) {
        anyhow::bail!("nothing was checked: {why}");
    }
    anyhow::ensure!(
        missing.is_empty() || elsewhere == 0,
        "nothing was checked: {}\n--namespace excludes {} that {} given",
        missing.join("; "),
        if elsewhere == 1 { "the only object".to_owned() } else { format!("all {elsewhere} objects") },
        if elsewhere == 1 { "was" } else { "were" }
    );
    let has_objects = !content.namespaces.is_empty() || content.has_unplaced;
    let unselected = || {
        let selector = scope.selector.as_ref().filter(|_| has_objects);
        selector.map(|_| "no object matches --selector".to_owned())
    };
    let left_out = || {
        let all = has_objects && !result.excluded_namespaces.is_empty();
        all.then(|| "--exclude-namespace excludes every namespace with objects".to_owned())
    };
    let why = excluded(result).or_else(unselected).or_else(left_out).unwrap_or_else(|| no_object(paths));
    anyhow::bail!("nothing was checked: {why}")
}

fn shown_path(path: &Path) -> String {
    if is_stdin(path) { "standard input".to_owned() } else { path.display().to_string() }
}

/// Returns the error for files and directories without objects; for a kustomization, with the command that renders it.
fn no_object(paths: &[PathBuf]) -> String {
    let shown: Vec<String> = paths.iter().take(SHOWN_PATHS).map(|path| shown_path(path)).collect();
    let more = if paths.len() > SHOWN_PATHS { " and others" } else { "" };
    let kustomized = paths.iter().find(|path| path.join("kustomization.yaml").is_file());
    let render =
        kustomized.map(|path| format!("; to render it: kubectl kustomize {} | kaudit check -f -", path.display()));
    format!("no object found in {}{more}{}", shown.join(", "), render.unwrap_or_default())
}

/// Checks that the cluster had objects, and some in each named namespace. If a kind could not be read, this is not an
/// error: the result is incomplete anyway.
///
/// # Errors
/// If there was none, with the reason.
pub(crate) async fn of_cluster(result: &AuditResult, client: &Client) -> anyhow::Result<()> {
    let is_whole = result.scope.as_ref().is_none_or(|scope| scope.shard.is_whole());
    // Other shards may have the objects.
    if !is_whole || result.coverage.iter().any(Coverage::is_gap) {
        return Ok(());
    }
    let mut missing = Vec::new();
    for (namespace, objects) in &result.namespaces {
        if let (Some(namespace), 0) = (namespace, objects) {
            missing.extend(missing_namespace(client, namespace).await);
        }
    }
    anyhow::ensure!(missing.is_empty(), "{}", missing.join("\n"));
    if result.summary.objects > 0 {
        return Ok(());
    }
    let why = inactive(result).or_else(|| excluded(result));
    anyhow::bail!("nothing was checked: {}", why.as_deref().unwrap_or("there is no object of the kinds in scope"))
}

/// Warns whenever the long run has no object to check, in all or in one of the namespaces, until the pipeline ends.
pub(crate) async fn warn_of_nothing(
    mut overview: watch::Receiver<Option<Arc<Overview>>>,
    client: Client,
    namespaces: Vec<String>,
) {
    let mut warned = String::new();
    while overview.changed().await.is_ok() {
        let nothing = overview.borrow_and_update().as_ref().map(|overview| overview.nothing_found.clone());
        let nothing = nothing.unwrap_or_default();
        if nothing == warned {
            continue;
        }
        if !nothing.is_empty() {
            warn!("Nothing to check: {nothing}");
            for namespace in &namespaces {
                if let Some(missing) = missing_namespace(&client, namespace).await {
                    warn!("{missing}; it will be checked once it is created");
                }
            }
        }
        warned = nothing;
    }
}

/// Returns a message if a namespace does not exist; `None` if it exists or cannot be read.
async fn missing_namespace(client: &Client, name: &str) -> Option<String> {
    let api = Api::<Namespace>::all(client.clone());
    match api.get_metadata_opt(name).await {
        Ok(Some(_)) => None,
        Ok(None) => {
            // Without the right to list them there is no hint.
            let all = api.list_metadata(&ListParams::default().limit(NAMESPACES)).await.map(|list| list.items);
            let all = all.unwrap_or_default();
            let names = all.iter().filter_map(|namespace| namespace.metadata.name.as_deref());
            Some(format!("namespace {name:?} does not exist{}", hint(nearest(name, names))))
        }
        Err(error) => {
            warn!(
                namespace = name,
                "The namespace has no objects, and it is unknown whether it exists: {}",
                describe(&error)
            );
            None
        }
    }
}

fn hint(near: Option<&str>) -> String {
    near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default()
}

fn inactive(result: &AuditResult) -> Option<String> {
    let inactive: usize = result.coverage.iter().map(|kind| kind.inactive).sum();
    (inactive > 0)
        .then(|| "all objects are inactive, for example finished Jobs; to check them: --inactive judge".to_owned())
}

/// Returns a message if the options exclude every kind.
fn excluded(result: &AuditResult) -> Option<String> {
    let kinds = || result.coverage.iter().filter(|kind| !kind.is_documents() && kind.group != OWN_GROUP);
    let is_excluded = |kind: &Coverage| kind.state == State::Excluded;
    let all = kinds().count() > 0 && kinds().all(is_excluded);
    let why = kinds().find(|kind| kind.message.starts_with("--exclude")).map_or("--kinds judged", |_| "--exclude");
    all.then(|| format!("{why} excludes every kind with objects"))
}
