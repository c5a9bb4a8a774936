//! What is wrong with the reports: for the recorder's health, and once for the log.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::watch;
use tracing::{info, warn};

use super::{
    format::{Api, Choice},
    report_set::{MOST_WRITTEN, Report, ReportKey},
};
use crate::record::health::Health;

/// A report that could not be written.
#[derive(Debug)]
pub(super) struct Failing {
    pub(super) attempts: u32,
    pub(super) why: String,
}

pub(super) struct ReportProblems {
    pub(super) failing: BTreeMap<ReportKey, Failing>,
    /// Reports without some results: how many are not listed, and why.
    incomplete: BTreeMap<ReportKey, (usize, String)>,
    /// Why reports cannot be read, and why obsolete ones cannot be deleted; empty if they can.
    pub(super) read_error: String,
    pub(super) prune_error: String,
    /// Which reports were given up on at the end, and why.
    pub(super) lost: String,
    /// The health as it was logged last.
    logged: String,
    health: watch::Sender<Health>,
}

impl ReportProblems {
    pub(super) fn new(read_error: String, health: watch::Sender<Health>) -> Self {
        Self {
            failing: BTreeMap::new(),
            incomplete: BTreeMap::new(),
            read_error,
            prune_error: String::new(),
            lost: String::new(),
            logged: String::new(),
            health,
        }
    }

    /// Notes how many results of a report are not listed, and why; `refused` is why the server refuses some, if that is
    /// new.
    pub(super) fn note_incomplete(&mut self, key: &ReportKey, report: &Report, refused: Option<String>) {
        let without_room = report.without_room();
        let number = report.left_out() + without_room;
        let why = match (refused, without_room) {
            (Some(refused), _) => format!("the server refuses them: {refused}"),
            (None, 0) => return self.incomplete.get_mut(key).map_or((), |(known, _)| *known = number),
            (None, _) => format!("a namespace may have at most {MOST_WRITTEN} report objects"),
        };
        self.incomplete.insert(key.clone(), (number, why));
    }

    /// Reports what is wrong, if anything is, in the status and, once, in the log.
    pub(super) fn report(&mut self, api: Option<Api>, choice: Choice) {
        let mut health = Health::default();
        let wanted: Vec<&str> = choice.apis().iter().map(|api| api.api_version()).collect();
        let absent = || format!("no reports are written: the cluster does not serve {}", wanted.join(" or "));
        let mut why = "";
        self.incomplete.retain(|_, (number, _)| *number > 0);
        let left_out: usize = self.incomplete.values().map(|(number, _)| *number).sum();
        match self.failing.first_key_value() {
            _ if api.is_none() && choice == Choice::Auto => health.note = absent(),
            _ if api.is_none() => health.trouble = absent(),
            Some((key, failing)) => {
                let more = self.failing.len() - 1;
                let more = if more == 0 { String::new() } else { format!(" and {more} more") };
                why = &failing.why;
                health.trouble =
                    format!("reports{}{more} cannot be written: {why}", of_namespace(key.namespace.as_ref()));
            }
            None if !self.read_error.is_empty() => {
                health.trouble = format!("reports cannot be read: {}", self.read_error);
            }
            None => health.trouble.clone_from(&self.prune_error),
        }
        if let Some((key, (_, why))) = self.incomplete.first_key_value() {
            let of = of_namespace(key.namespace.as_ref());
            let noun = if left_out == 1 { "result" } else { "results" };
            let incomplete = format!("{left_out} {noun} not listed in reports{of}: {why}");
            let separator = if health.trouble.is_empty() { "" } else { "; " };
            health.trouble = format!("{}{separator}{incomplete}", health.trouble);
        }
        // The count of failing reports changes all the time, which is not worth a line in the log.
        let line = if why.is_empty() { format!("{}{}", health.trouble, health.note) } else { why.to_owned() };
        if line != self.logged && !line.is_empty() {
            if health.trouble.is_empty() { info!("{}", health.note) } else { warn!("{}", health.trouble) }
        }
        self.logged = line;
        let is_absent = api.is_none() && choice != Choice::Auto;
        health.lost.clone_from(if is_absent { &health.trouble } else { &self.lost });
        self.health.send_if_modified(|known| std::mem::replace(known, health.clone()) != health);
    }
}

/// Returns where the objects of a report are, for messages.
pub(super) fn of_namespace(namespace: Option<&Arc<str>>) -> String {
    namespace.map_or(" on cluster-scoped objects".to_owned(), |namespace| format!(" in namespace {namespace}"))
}
