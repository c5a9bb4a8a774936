//! Reports of one audit alone, for whoever applies or keeps them.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::{
    format::{Api, Instance, Layout, ReportFormat, is_listed},
    report_set::ReportSet,
};
use crate::{
    audit::{
        ledger::{Subject, Violation},
        result::Entry,
    },
    model::verdict::{Excused, Finding, Outcome},
};

/// Returns the reports of openreports.io on these results, sorted by namespace and name. They have no times, since one audit
/// does not know when a result was first seen: of the same results they are the same.
pub fn of_results(results: &[Entry]) -> Vec<Value> {
    let format = ReportFormat { layout: Layout::Namespace, instance: Instance::of_check(), dated: false };
    let mut set = ReportSet::new(format);
    for entry in results {
        let violation = violation(entry);
        if is_listed(&violation) {
            set.add(&entry.resource, violation);
        }
    }
    set.reports.values_mut().for_each(|report| report.partitions.split_large());
    set.documents(Api::OpenReports).collect()
}

fn violation(entry: &Entry) -> Violation {
    let finding = Finding {
        policy: Arc::clone(&entry.policy),
        rule: Arc::clone(&entry.rule),
        outcome: entry.result,
        severity: entry.severity,
        category: entry.category.clone(),
        message: Arc::clone(&entry.message),
        details: None,
        // Reports do not say what it would be otherwise.
        excused: entry.excuse.clone().map(|excuse| Excused { excuse, otherwise: Outcome::Fail }),
        source: entry.source.clone(),
    };
    // Manifests have no uid, and viewers tell results apart by an id that is made of it.
    let identity = entry.resource.identity();
    let subject = Subject { uid: &identity, ..Subject::from(&*entry.resource) };
    Violation { dependents: entry.dependents, ..Violation::new(subject, finding, Timestamp::UNIX_EPOCH) }
}
