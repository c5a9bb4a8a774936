//! The files of exceptions: read at the start, and again whenever they changed.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use anyhow::Context as _;
use tokio::{
    sync::{mpsc, watch},
    task::spawn_blocking,
    time::sleep,
};
use tracing::{error, warn};

use super::policies::{POLL, fingerprint};
use crate::{
    audit::{command::Command, exceptions::Exceptions, overview::Overview},
    judge::sources::PolicySource,
    model::exception::ExceptionState,
};

/// Reads files of exceptions.
///
/// # Errors
/// When one cannot be read, with file and line.
pub(in crate::commands) async fn load(files: &[PathBuf]) -> anyhow::Result<Exceptions> {
    let files = files.to_vec();
    spawn_blocking(move || Exceptions::load(&files)).await.context("reading the exceptions")?
}

/// Reads the files again whenever they changed, until the pipeline has ended. What cannot be read leaves the last good
/// exceptions in force.
pub(super) async fn follow(files: Vec<PathBuf>, pipeline: mpsc::Sender<Command>) {
    let sources: Vec<PolicySource> = files.iter().cloned().map(PolicySource::from).collect();
    let mut known = fingerprint(&sources).await;
    while !files.is_empty() && !pipeline.is_closed() {
        sleep(POLL).await;
        let now = fingerprint(&sources).await;
        if std::mem::replace(&mut known, now) == now {
            continue;
        }
        match load(&files).await {
            Ok(exceptions) => {
                // An error says that the pipeline has ended.
                let _ended = pipeline.send(Command::Except(exceptions)).await;
            }
            Err(why) => error!("The exceptions could not be loaded; those loaded before stay in force: {why:#}"),
        }
    }
}

/// Logs once what is wrong with an exception, and that one is at its end or about to be, until the pipeline has ended.
pub(super) async fn warn_of(mut overview: watch::Receiver<Option<Arc<Overview>>>) {
    use ExceptionState::{Expired, Expiring, Invalid};
    let mut told: BTreeMap<String, ExceptionState> = BTreeMap::new();
    while overview.changed().await.is_ok() {
        let exceptions = overview.borrow_and_update().as_ref().map(|overview| overview.exceptions.clone());
        let now = exceptions.unwrap_or_default();
        for exception in now.iter().filter(|exception| matches!(exception.state, Expiring | Expired | Invalid)) {
            if told.get(&exception.name) != Some(&exception.state) {
                warn!(exception = exception.name, "An exception needs attention: {}", exception.message);
            }
        }
        told = now.into_iter().map(|exception| (exception.name, exception.state)).collect();
    }
}
