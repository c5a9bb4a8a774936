//! Follows a bundle: reads it, asks whether there is a newer one, and keeps what was last in order.
//!
//! In: a reference. Out: a [`Bundle`], again whenever there is another. What cannot be read, or is not to be judged by, leaves
//! the one before in place, which then says so.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    task::{AbortHandle, spawn_blocking},
    time::{sleep, timeout},
};
use tracing::{error, info, warn};

use super::{
    cache::Cache,
    contents,
    download::Download,
    http::{FetchError, Http},
    package::Package,
    settings::BundleSettings,
};
use crate::{
    judge::bundle::{Bundle, BundleReference, Edition},
    rego::problem::Problem,
};

/// How often a file is looked at, as those in directories are.
const NEAR_POLL: Duration = Duration::from_secs(1);
/// How much earlier or later than said a server is asked, so that not all ask at once.
const JITTER: f64 = 0.1;

/// A bundle that is followed until this is dropped.
pub struct FollowedBundle {
    /// The newest.
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

/// Reads a bundle, and follows it if the settings say how often.
///
/// # Errors
/// When it cannot be read, and there is no older one in the cache.
pub async fn follow(reference: &BundleReference, settings: &BundleSettings) -> anyhow::Result<FollowedBundle> {
    let source: Arc<str> = reference.shown().into();
    let failed = |error: anyhow::Error| anyhow::anyhow!("{}: {error:#}", reference.shown());
    let http = Http::new(settings.timeout, settings.ca.as_ref()).map_err(failed)?;
    let download = Download::new(reference, http, settings.verification.as_deref()).map_err(failed)?;
    let cache = settings.cache.as_ref().filter(|_| !download.is_near()).map(|directory| Cache::new(directory, &source));
    let mut follower = Follower { source, settings: settings.clone(), download, cache, seen: None, refused: None };
    let bundle = match follower.newest().await {
        Ok(Some(bundle)) => bundle,
        Ok(None) => anyhow::bail!("{reference}: nothing was read, which is a bug"),
        Err(why) => {
            let Some(bundle) = follower.cached().await else { return Err(failed(why.into())) };
            let digest = &bundle.edition.digest;
            error!(bundle = %reference, digest, "Judging by the bundle in the cache: {why}");
            stale(&bundle, &why)
        }
    };
    // What is fixed by its digest stays as it is.
    let fixed = bundle.edition.pinned && bundle.edition.stale.is_empty();
    let (sender, receiver) = watch::channel(Arc::new(bundle));
    let poll = if follower.download.is_near() { settings.poll.map(|_| NEAR_POLL) } else { settings.poll };
    let task = poll
        .filter(|poll| !fixed && !poll.is_zero())
        .map(|poll| tokio::spawn(follower.run(poll, sender)).abort_handle());
    Ok(FollowedBundle { bundle: receiver, task })
}

/// Returns a bundle that may not be the newest.
fn stale(bundle: &Bundle, why: &FetchError) -> Bundle {
    let Edition { source, digest, .. } = &bundle.edition;
    let message = format!("{why}; judging by {digest}");
    let problem = match why {
        FetchError::Unavailable(_) => Problem::warning(source, message),
        FetchError::Unacceptable(_) => Problem::refused(source, message),
    };
    let edition = Edition { stale: why.to_string(), ..bundle.edition.clone() };
    Bundle { edition, problem: Some(problem), ..bundle.clone() }
}

struct Follower {
    source: Arc<str>,
    settings: BundleSettings,
    download: Download,
    cache: Option<Cache>,
    /// What was downloaded last, without its parts.
    seen: Option<Package>,
    /// Why that is not judged by.
    refused: Option<FetchError>,
}

impl Follower {
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
                    info!(bundle = %self.source, digest, "The bundle is the newest again");
                    let edition = Edition { stale: String::new(), ..current.edition.clone() };
                    sender.send_replace(Arc::new(Bundle { edition, problem: None, ..Bundle::clone(&current) }));
                }
                Err(why) if *known == why.to_string() => {}
                Err(why) => {
                    error!(bundle = %self.source, digest, "The bundle is not updated, and judged by as it was: {why}");
                    sender.send_replace(Arc::new(stale(&current, &why)));
                }
            }
            let edition = &sender.borrow().edition;
            if edition.pinned && edition.stale.is_empty() {
                return;
            }
        }
    }

    /// Reads what is there now; `None` if it is what is judged by.
    async fn newest(&mut self) -> Result<Option<Bundle>, FetchError> {
        let limit = self.settings.timeout;
        let downloaded = timeout(limit, self.download.newest(self.seen.as_ref())).await;
        let late = |_| FetchError::Unavailable(format!("could not be downloaded within {} s", limit.as_secs()));
        let downloaded = downloaded.map_err(late)??;
        let unchanged = self.refused.clone().map_or(Ok(None), Err);
        let Some(package) = downloaded else { return unchanged };
        if let Some(seen) = self.seen.as_mut().filter(|seen| seen.digest == package.digest) {
            seen.etag = package.etag;
            return unchanged;
        }
        self.seen = Some(Package { parts: Vec::new(), signatures: Vec::new(), ..package.clone() });
        let read = self.read(package).await;
        self.refused = read.as_ref().err().cloned();
        let (bundle, package) = read?;
        if let Some(cache) = self.cache.clone() {
            let written = spawn_blocking(move || cache.write(&package)).await;
            if let Ok(Err(error)) = written {
                warn!(bundle = %self.source, "The bundle is not kept for a restart: {error:#}");
            }
        }
        Ok(Some(bundle))
    }

    /// Makes a bundle of a package.
    async fn read(&self, package: Package) -> Result<(Bundle, Package), FetchError> {
        let (source, pinned) = (Arc::clone(&self.source), self.download.pinned().is_some());
        let verification = self.settings.verification.clone();
        let read = spawn_blocking(move || {
            let bundle = contents::read(&source, pinned, &package, verification.as_deref())?;
            Ok::<_, String>((bundle, package))
        });
        match read.await {
            Ok(read) => read.map_err(FetchError::Unacceptable),
            Err(_) => Err(FetchError::Unacceptable("cannot be unpacked, which is a bug".to_owned())),
        }
    }

    /// Reads what an earlier run left, if it may still be judged by.
    async fn cached(&self) -> Option<Bundle> {
        let cache = self.cache.clone()?;
        let read = spawn_blocking(move || cache.read()).await.ok()?;
        let package = match read {
            Ok(package) => package?,
            Err(error) => {
                warn!(bundle = %self.source, "The bundle in the cache cannot be used: {error:#}");
                return None;
            }
        };
        if self.download.pinned().is_some_and(|pinned| pinned != package.digest) {
            return None;
        }
        match self.read(package).await {
            Ok((bundle, _)) => Some(bundle),
            Err(why) => {
                warn!(bundle = %self.source, "The bundle in the cache is refused: {why}");
                None
            }
        }
    }
}
