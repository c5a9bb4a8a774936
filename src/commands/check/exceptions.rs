//! The files of exceptions: read at the start, and again whenever they changed.

use std::path::PathBuf;

use anyhow::Context as _;
use tokio::{sync::mpsc, task::spawn_blocking, time::sleep};
use tracing::{error, info};

use super::policies::{POLL, fingerprint};
use crate::{
    audit::{command::Command, exceptions::Exceptions},
    judge::sources::PolicySource,
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
                info!("Exceptions loaded");
                // An error says that the pipeline has ended.
                let _ended = pipeline.send(Command::Except(exceptions)).await;
            }
            Err(why) => error!("The exceptions could not be loaded; those loaded before stay in force: {why:#}"),
        }
    }
}
