//! Follows a bundle: reads it, polls for newer ones, and keeps the last valid one.
//!
//! In: a reference. Out: a [`Bundle`], and each newer version of it. If a newer version cannot be read or must not be
//! used, the current one stays in force, and contains the problem.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use tokio::{
    sync::watch,
    task::AbortHandle,
    time::{sleep, timeout},
};
use tracing::{error, info, warn};

use super::{
    cache::BundleCache,
    contents,
    digest::check,
    download::Download,
    http::{FetchError, Http},
    package::Package,
    settings::BundleSettings,
};
use crate::{
    blocking::spawn_blocking,
    judge::{
        bundle::{Bundle, BundleReference, Edition},
        set::PolicySet,
        sources::FileSource,
    },
    rego::{Problem, problem::summary},
};

/// How often a file is checked for changes, as files in directories are.
const FILE_POLL: Duration = Duration::from_secs(1);
/// Random variation of the interval, so that not all replicas poll a server at once.
const JITTER: f64 = 0.1;

/// A bundle that is polled for newer versions until this is dropped.
pub struct FollowedBundle {
    /// The current bundle.
    pub bundle: watch::Receiver<Arc<Bundle>>,
    task: Option<AbortHandle>,
}

impl Drop for FollowedBundle {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// Reads a bundle, and follows it if the settings contain an interval.
///
/// # Errors
/// If it cannot be read, and there is no older one in the cache.
pub async fn follow(reference: &BundleReference, settings: &BundleSettings) -> anyhow::Result<FollowedBundle> {
    let source: Arc<str> = reference.to_string().into();
    let failed = |error: anyhow::Error| anyhow::anyhow!("{reference}: {error:#}");
    let http = Http::new(settings.timeout, settings.ca.as_ref()).map_err(failed)?;
    let download = Download::new(reference, http, settings.verification.as_deref()).map_err(failed)?;
    if settings.repository.is_some() && !download.is_artifact() {
        let why = "--verification-repository requires a signature that names a repository, which only an artifact in a \
                   registry has; publish it there, or leave the option out";
        return Err(failed(anyhow::anyhow!(why)));
    }
    let cache = settings
        .cache
        .as_ref()
        .filter(|_| !download.is_file())
        .map(|directory| BundleCache::new(directory, &reference.secret_text()));
    let mut follower = BundleFollower {
        source,
        settings: settings.clone(),
        download,
        cache,
        latest_creation: None,
        seen: None,
        refused: None,
        better_in_cache: None,
    };
    follower.latest_creation = follower.cached_package().await.and_then(|package| package.created);
    let bundle = match follower.newest().await {
        Ok(Some(bundle)) => match follower.better_in_cache.take() {
            None => bundle,
            Some((cached, why)) => {
                error!(bundle = %reference, digest = cached.edition.digest, "Using the bundle in the cache: {why}");
                follower.refused = Some(why.clone());
                stale(&cached, &why)
            }
        },
        Ok(None) => anyhow::bail!("{reference}: nothing was read, which is a bug"),
        Err(why) => {
            let Some(bundle) = follower.cached().await else { return Err(failed(why.into())) };
            let digest = &bundle.edition.digest;
            error!(bundle = %reference, digest, "Using the bundle in the cache: {why}");
            stale(&bundle, &why)
        }
    };
    // A bundle that is pinned by its digest cannot change.
    let fixed = bundle.edition.pinned && bundle.edition.stale.is_empty();
    let (sender, receiver) = watch::channel(Arc::new(bundle));
    let poll = if follower.download.is_file() { settings.poll.map(|_| FILE_POLL) } else { settings.poll };
    let task = poll
        .filter(|poll| !fixed && !poll.is_zero())
        .map(|poll| tokio::spawn(follower.run(poll, sender)).abort_handle());
    Ok(FollowedBundle { bundle: receiver, task })
}

/// Returns a bundle marked as stale, because a newer one could not be read or used.
fn stale(bundle: &Bundle, why: &FetchError) -> Bundle {
    let Edition { source, digest, .. } = &bundle.edition;
    let message = format!("{why}; {digest} stays in force");
    let problem = match why {
        FetchError::Unavailable(_) => Problem::warning(source, message),
        FetchError::Unacceptable(_) => Problem::refused(source, message),
    };
    let edition = Edition { stale: why.to_string(), ..bundle.edition.clone() };
    Bundle { edition, problem: Some(problem), ..bundle.clone() }
}

/// Returns why the policies of a bundle cannot be loaded, by themselves; `None` if they can.
async fn refusal(bundle: &Bundle) -> Option<String> {
    let source = FileSource::Bundle(Arc::new(Bundle { problem: None, ..bundle.clone() }));
    let refused = spawn_blocking(move || PolicySet::load(&[source]).err().map(|error| summary(&error.problems)));
    refused.await.unwrap_or_else(|_| Some("they cannot be loaded, which is a bug".to_owned()))
}

struct BundleFollower {
    source: Arc<str>,
    settings: BundleSettings,
    download: Download,
    cache: Option<BundleCache>,
    /// The latest creation time of the bundles that were in force.
    latest_creation: Option<Timestamp>,
    /// The last downloaded package, without its parts.
    seen: Option<Package>,
    /// Why that package is not used.
    refused: Option<FetchError>,
    /// The bundle in the cache, if its policies can be loaded and those of the newest bundle cannot, with the reason.
    better_in_cache: Option<(Bundle, FetchError)>,
}

impl BundleFollower {
    async fn run(mut self, poll: Duration, sender: watch::Sender<Arc<Bundle>>) {
        while !sender.is_closed() {
            sleep(poll.mul_f64(1.0 + JITTER * (2.0 * fastrand::f64() - 1.0))).await;
            let newest = self.newest().await;
            let current = Arc::clone(&sender.borrow());
            let Edition { digest, stale: known, .. } = &current.edition;
            match newest {
                Ok(Some(bundle)) => {
                    let Edition { digest, revision, .. } = &bundle.edition;
                    info!(bundle = %self.source, digest, revision, "Bundle loaded");
                    sender.send_replace(Arc::new(bundle));
                }
                Ok(None) if known.is_empty() => {}
                Ok(None) => {
                    info!(bundle = %self.source, digest, "The bundle is up to date again");
                    let edition = Edition { stale: String::new(), ..current.edition.clone() };
                    sender.send_replace(Arc::new(Bundle { edition, problem: None, ..Bundle::clone(&current) }));
                }
                Err(why) if *known == why.to_string() => {}
                Err(why) => {
                    error!(bundle = %self.source, digest, "The bundle could not be updated; the current version stays in force: {why}");
                    sender.send_replace(Arc::new(stale(&current, &why)));
                }
            }
            let edition = &sender.borrow().edition;
            if edition.pinned && edition.stale.is_empty() {
                return;
            }
        }
    }

    /// Reads the newest bundle; `None` if it is the one in force.
    async fn newest(&mut self) -> Result<Option<Bundle>, FetchError> {
        let limit = self.settings.timeout;
        let downloaded = timeout(limit, self.download.newest(self.seen.as_ref(), self.refused.is_some())).await;
        let late = |_| FetchError::Unavailable(format!("could not be downloaded within {} s", limit.as_secs()));
        let downloaded = downloaded.map_err(late)??;
        let unchanged = self.refused.clone().map_or(Ok(None), Err);
        let Some(package) = downloaded else { return unchanged };
        let is_refused = self.refused.is_some();
        let is_same = |seen: &&mut Package| {
            seen.digest == package.digest && (!is_refused || seen.signatures == package.signatures)
        };
        if let Some(seen) = self.seen.as_mut().filter(is_same) {
            seen.etag = package.etag;
            return unchanged;
        }
        self.seen = Some(Package { parts: Vec::new(), ..package.clone() });
        let read = self.read(package).await;
        self.refused = read.as_ref().err().cloned();
        let (bundle, package) = read?;
        let bundle = self.with_age_checked(bundle, package.created);
        self.update_cache(&bundle, package).await;
        Ok(Some(bundle))
    }

    /// Writes a bundle into the cache. If its policies cannot be loaded, and those of the cached bundle can, the cached one
    /// stays for a restart.
    async fn update_cache(&mut self, bundle: &Bundle, package: Package) {
        self.better_in_cache = None;
        let Some(cache) = self.cache.clone() else { return };
        if let Some(why) = refusal(bundle).await
            && let Some(cached) = self.cached().await
            && cached.edition.digest != bundle.edition.digest
            && refusal(&cached).await.is_none()
        {
            let why = FetchError::Unacceptable(format!("the policies of {} are refused: {why}", bundle.edition.digest));
            warn!(bundle = %self.source, "The bundle is not cached for a restart: {why}");
            self.better_in_cache = Some((cached, why));
            return;
        }
        let written = spawn_blocking(move || cache.write(&package)).await;
        if let Ok(Err(error)) = written {
            warn!(bundle = %self.source, "The bundle could not be cached for a restart: {error:#}");
        }
    }

    /// Creates a bundle from a package.
    async fn read(&self, package: Package) -> Result<(Bundle, Package), FetchError> {
        let (source, pinned) = (Arc::clone(&self.source), self.download.pinned().is_some());
        let (verification, repository) = (self.settings.verification.clone(), self.settings.repository.clone());
        let read = spawn_blocking(move || {
            let bundle = contents::read(&source, pinned, &package, (verification.as_deref(), repository.as_deref()))?;
            Ok::<_, String>((bundle, package))
        });
        match read.await {
            Ok(read) => read.map_err(FetchError::Unacceptable),
            Err(_) => Err(FetchError::Unacceptable("cannot be unpacked, which is a bug".to_owned())),
        }
    }

    /// Returns the bundle, with a warning if it was created before one that was in force: a registry may have gone back to
    /// an older bundle, whose signature is still valid.
    fn with_age_checked(&mut self, mut bundle: Bundle, created: Option<Timestamp>) -> Bundle {
        let source = &bundle.edition.source;
        match (created, self.latest_creation) {
            (Some(created), Some(latest)) if created < latest => {
                let message = format!("was created at {created}, earlier than a previous version ({latest})");
                warn!(bundle = %source, digest = bundle.edition.digest, "The bundle {message}");
                let help = "if this rollback is intended, reference the bundle by its digest";
                bundle.problem = Some(Problem::warning(source, message).help(help));
            }
            (created, latest) => self.latest_creation = created.max(latest),
        }
        bundle
    }

    /// Reads the bundle cached by an earlier run, if it may still be used.
    async fn cached(&self) -> Option<Bundle> {
        let package = self.cached_package().await?;
        match self.read(package).await {
            Ok((bundle, _)) => Some(bundle),
            Err(why) => {
                warn!(bundle = %self.source, "The bundle in the cache is refused: {why}");
                None
            }
        }
    }

    /// Reads the package cached by an earlier run; `None` if it does not match the pinned digest.
    async fn cached_package(&self) -> Option<Package> {
        let cache = self.cache.clone()?;
        let read = spawn_blocking(move || cache.read()).await.ok()?;
        let package = match read {
            Ok(package) => package?,
            Err(error) => {
                warn!(bundle = %self.source, "The bundle in the cache cannot be used: {error:#}");
                return None;
            }
        };
        let is_other = |pinned| check(pinned, package.manifest.as_deref().unwrap_or_default()).is_err();
        if self.download.pinned().is_some_and(is_other) {
            return None;
        }
        Some(package)
    }
}
