//! Keeps counts of each day in the status of the `Audit` object.
//!
//! They are applied once a day and by a field manager of their own, so that other changes of the status, of which there may
//! be many, do not send them again.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::{Timestamp, civil::Date, tz::TimeZone};
use kube::{
    Api,
    api::{DynamicObject, PatchParams},
};
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};
use tracing::warn;

use crate::{
    audit::{
        command::{Command, ask},
        history::History,
        overview::Overview,
    },
    cluster::{error::describe, identity::API_VERSION},
    record::patch::apply_patch,
};

/// The field manager of the history.
const MANAGER: &str = "kaudit-history";
/// Timeout for the result and for the write.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long to wait after a failed attempt, since each needs the whole result.
const RETRY: Duration = Duration::from_mins(5);

/// Where counts come from, and who reads them.
#[derive(Clone)]
pub struct HistorySettings {
    /// Returns the result that is counted.
    pub pipeline: mpsc::Sender<Command>,
    /// The page.
    pub shown: watch::Sender<Arc<History>>,
}

/// Writes the history of one `Audit`.
pub(super) struct HistoryRecorder {
    settings: HistorySettings,
    /// What the object contains; `None` until it was read.
    known: Option<History>,
    /// Whether the object lacks the history.
    is_lost: bool,
    /// When the last attempt failed, if it did.
    failed: Option<Instant>,
}

impl HistoryRecorder {
    pub(super) fn new(settings: HistorySettings) -> Self {
        Self { settings, known: None, is_lost: false, failed: None }
    }

    /// Takes over the history in the status of an object that was there or has just been created.
    pub(super) fn adopt(&mut self, status: &Value) {
        let written = &status["history"];
        self.is_lost = written.is_null() && self.known.is_some();
        if !self.is_lost {
            self.show(serde_json::from_value(written.clone()).unwrap_or_default());
        }
    }

    /// Adds the counts of the current day if it has none, and everything was evaluated.
    pub(super) async fn update(&mut self, api: &Api<DynamicObject>, name: &str, overview: &Overview) {
        let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
        let is_due = self.known.as_ref().is_some_and(|known| self.is_lost || !known.has(today));
        let is_due = is_due && self.failed.is_none_or(|failed| failed.elapsed() >= RETRY);
        if is_due && overview.synced && overview.evaluated {
            self.failed = Some(Instant::now());
            match timeout(PATIENCE, self.write(api, name, today)).await {
                Ok(Ok(())) => self.failed = None,
                Ok(Err(error)) => warn!("The counts of this day were not written, retrying: {}", describe(&error)),
                Err(_) => warn!("The counts of this day were not written in time, retrying"),
            }
        }
    }

    async fn write(&mut self, api: &Api<DynamicObject>, name: &str, today: Date) -> kube::Result<()> {
        let mut history = self.known.clone().unwrap_or_default();
        if !history.has(today) {
            let Some(Some(snapshot)) = ask(&self.settings.pipeline, None).await else { return Ok(()) };
            history.add(today, &snapshot.result);
        }
        let body = json!({"apiVersion": API_VERSION, "kind": "Audit", "metadata": {"name": name}, "status": {"history": history}});
        api.patch_status(name, &PatchParams::apply(MANAGER).force(), &apply_patch(&body)?).await?;
        self.is_lost = false;
        self.show(history);
        Ok(())
    }

    fn show(&mut self, history: History) {
        self.settings.shown.send_replace(Arc::new(history.clone()));
        self.known = Some(history);
    }
}
