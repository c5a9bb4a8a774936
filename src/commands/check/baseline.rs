//! Baselines: the violations that there were at one time, so that only new ones count.
//!
//! A violation is recognised by its [`Fingerprint`](crate::audit::fingerprint::Fingerprint). What a baseline lists and was
//! not found is fixed only if it would have been found: where policies, scope or coverage differ it cannot be compared, and
//! then the audit is incomplete.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs,
    path::Path,
    sync::Arc,
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::drafts;
use crate::{
    audit::{
        reach::Reach,
        result::{AuditResult, BaselineEntry, BaselineSummary, Entry, IncomparableEntry, ObjectSource},
    },
    cli::check::CheckArgs,
    cluster::identity::API_VERSION,
    model::{exception::Excuse, object::ObjectRef, verdict::Outcome},
    output::replace_file,
};

/// Kind of the document.
const KIND: &str = "Baseline";

/// A file of violations.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Baseline {
    api_version: String,
    kind: String,
    /// Digest of the policies that it was made by.
    policies: String,
    scope: ObjectSource,
    /// Sorted.
    results: Vec<BaselineEntry>,
}

impl Baseline {
    /// Reads a baseline.
    ///
    /// # Errors
    /// When the file cannot be read or is none, with the line.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let shown = || format!("reading the baseline {}", path.display());
        let text = fs::read_to_string(path).with_context(shown)?;
        let baseline: Self = serde_json::from_str(&text).with_context(shown)?;
        let Self { api_version, kind, .. } = &baseline;
        anyhow::ensure!(
            kind == KIND && api_version == API_VERSION,
            "{} is a {kind} of {api_version}, not a {KIND} of {API_VERSION}",
            path.display()
        );
        Ok(baseline)
    }

    /// Makes one of the violations of a result.
    fn of(result: &AuditResult, check: &CheckArgs, policies: &str) -> Self {
        let violations = result.results.iter().filter(|entry| entry.result.is_violation());
        // The dependents of an owner have one in common.
        let results: BTreeMap<_, _> = violations.map(|entry| (entry.id, BaselineEntry::from(entry))).collect();
        let results: BTreeSet<BaselineEntry> = results.into_values().collect();
        Self {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            policies: policies.to_owned(),
            scope: check.scope.audited(&check.source).source,
            results: results.into_iter().collect(),
        }
    }

    fn write(&self, path: &Path) -> anyhow::Result<()> {
        replace_file(path, |out| {
            serde_json::to_writer_pretty(&mut *out, self)?;
            out.write_all(b"\n")
        })
        .with_context(|| format!("writing the baseline {}", path.display()))
    }

    /// Skips what it lists, and says what is fixed and what cannot be compared.
    fn apply(&self, result: &mut AuditResult, check: &CheckArgs) {
        let known: HashSet<_> = self.results.iter().map(|entry| entry.id).collect();
        let found: HashSet<_> = result.results.iter().map(|entry| entry.id).collect();
        let excuse = Arc::new(Excuse::baseline());
        let mut summary = BaselineSummary::default();
        let at = |object: &ObjectRef, entry: &Entry| {
            (object.identity(), Arc::clone(&entry.policy), Arc::clone(&entry.rule), entry.result)
        };
        let listed = result.results.iter().filter(|entry| known.contains(&entry.id));
        let listed: HashSet<_> = listed.map(|entry| at(&entry.resource, entry)).collect();
        // Dependents that came since are no other violation than the one of their owner.
        let covered = |entry: &Entry| entry.covered_by.as_ref().is_some_and(|owner| listed.contains(&at(owner, entry)));
        for entry in &mut result.results {
            if !entry.result.is_violation() || !(known.contains(&entry.id) || covered(entry)) {
                continue;
            }
            *result.summary.of(entry.result) -= 1;
            result.summary.skip += 1;
            summary.known += 1;
            entry.result = Outcome::Skip;
            entry.excuse = Some(Arc::clone(&excuse));
        }
        let (reach, source) = (Reach::of(result), check.scope.audited(&check.source).source);
        for entry in self.results.iter().filter(|entry| !found.contains(&entry.id)) {
            match self.incomparable(entry, &reach, source) {
                Some(reason) => summary.incomparable.push(IncomparableEntry { entry: entry.clone(), reason }),
                None => summary.fixed.push(entry.clone()),
            }
        }
        result.baseline = Some(summary);
    }

    /// Returns why it is not known whether a violation that was not found stands; `None` if it does not.
    fn incomparable(&self, entry: &BaselineEntry, reach: &Reach<'_>, source: ObjectSource) -> Option<String> {
        let elsewhere = (self.scope != source).then(|| format!("the baseline is that of {}", self.scope));
        elsewhere.or_else(|| reach.misses(entry))
    }
}

/// Compares a result with the baseline of the options, or writes one, or drafts of exceptions, as they say.
///
/// # Errors
/// When a file cannot be written.
pub(super) fn settle(
    result: &mut AuditResult,
    check: &CheckArgs,
    policies: &str,
    given: Option<Baseline>,
) -> anyhow::Result<()> {
    let options = &check.exceptions;
    if let Some(path) = &options.write_exceptions {
        drafts::write(path, result)?;
    }
    if let Some(path) = &options.write_baseline {
        let baseline = Baseline::of(result, check, policies);
        baseline.write(path)?;
        baseline.apply(result, check);
    }
    if let (Some(path), Some(mut baseline)) = (&options.baseline, given) {
        baseline.apply(result, check);
        let fixed: HashSet<_> =
            result.baseline.iter().flat_map(|summary| &summary.fixed).map(|entry| entry.id).collect();
        if options.prune_baseline && !fixed.is_empty() {
            baseline.results.retain(|entry| !fixed.contains(&entry.id));
            baseline.write(path)?;
        }
    }
    Ok(())
}
