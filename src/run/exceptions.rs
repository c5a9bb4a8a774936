//! Reads the files of exceptions at the start, and again whenever they change.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use anyhow::Context as _;
use tokio::{
    sync::{mpsc, watch},
    time::sleep,
};
use tracing::warn;

use super::policies::{POLL, fingerprint};
use crate::{
    audit::{command::Command, exceptions::Exceptions, overview::Overview},
    blocking::spawn_blocking,
    cli::exceptions::ExceptionFileArgs,
    judge::files::SourceFingerprint,
    model::exception::ExceptionState,
};

/// Reads the exceptions that the options name, with the limit on the duration of those of teams.
///
/// # Errors
/// When a file cannot be read, with file and line.
pub(crate) async fn load(given: &ExceptionFileArgs) -> anyhow::Result<Exceptions> {
    Ok(load_files(&given.files).await?.limited(given.max_exception_duration))
}

async fn load_files(files: &[PathBuf]) -> anyhow::Result<Exceptions> {
    let files = files.to_vec();
    spawn_blocking(move || Exceptions::load(&files)).await.context("reading the exceptions")?
}

/// Files of exceptions, with the state that they had before they were read.
pub(crate) struct ExceptionFiles {
    paths: Vec<PathBuf>,
    loaded: Option<SourceFingerprint>,
}

impl ExceptionFiles {
    /// Captures the present state of files that are about to be read.
    pub(crate) async fn new(paths: &[PathBuf]) -> Self {
        Self { paths: paths.to_vec(), loaded: fingerprint(paths.to_vec()).await }
    }

    /// Reads the files again when they have changed and then stayed the same for one poll, until the pipeline has
    /// ended. If standard input is one of them, nothing is read again, since it can be read only once.
    pub(crate) async fn follow(mut self, pipeline: mpsc::Sender<Command>) {
        let mut before = self.loaded;
        let is_followed = !self.paths.is_empty() && self.paths.iter().all(|path| path.as_os_str() != "-");
        while is_followed && !pipeline.is_closed() {
            sleep(POLL).await;
            let now = fingerprint(self.paths.clone()).await;
            let at_rest = std::mem::replace(&mut before, now) == now;
            if now == self.loaded || !at_rest {
                continue;
            }
            self.loaded = now;
            // An error means that the pipeline has ended.
            let _ended = pipeline.send(Command::Except(load_files(&self.paths).await)).await;
        }
    }
}

/// Logs once that an exception is invalid, has ended or is about to end, until the pipeline has ended.
pub(crate) async fn warn_of(mut overview: watch::Receiver<Option<Arc<Overview>>>) {
    use ExceptionState::{Expired, Expiring, Invalid};
    let mut logged: BTreeMap<String, ExceptionState> = BTreeMap::new();
    while overview.changed().await.is_ok() {
        let exceptions = overview.borrow_and_update().as_ref().map(|overview| overview.exceptions.clone());
        let now = exceptions.unwrap_or_default();
        for exception in now.iter().filter(|exception| matches!(exception.state, Expiring | Expired | Invalid)) {
            if logged.get(&exception.name) != Some(&exception.state) {
                let kind = if exception.is_of_files() { "" } else { "PolicyException " };
                warn!("{kind}{} {}", exception.name, exception.sentence());
            }
        }
        logged = now.into_iter().map(|exception| (exception.name, exception.state)).collect();
    }
}
