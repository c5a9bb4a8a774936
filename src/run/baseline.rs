//! Baselines: the violations at one point in time, so that only new ones count.
//!
//! A violation is recognised by its [`Fingerprint`](crate::audit::fingerprint::Fingerprint); of several with the same
//! one, as many are known as the baseline lists ([`matching`]). A listed violation that was not found is fixed only if
//! it would have been found: if policies, scope or coverage differ, it cannot be compared, and the audit is incomplete.
//! Listed violations of manifests that were not given are kept.

mod matching;

use std::{
    collections::HashSet,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use tracing::warn;

use self::matching::BaselineComparison;
use super::{document::UnpackedFile, drafts};
use crate::{
    audit::{
        reach::Reach,
        result::{AuditResult, BaselineEntry, BaselineSummary, Entry, IncomparableEntry, ObjectSource},
    },
    cli::check::CheckArgs,
    cluster::identity::API_VERSION,
    model::{
        exception::Excuse,
        object::{ObjectName, ObjectRef},
        verdict::Outcome,
    },
    output::{print, replace_file, safe::write_json_pretty},
    source::manifest::ManifestContent,
};

/// Kind of the document.
const KIND: &str = "Baseline";
/// The format that is written, which lists each violation. Format 1 had one entry for each id, and no such field.
const FORM: u32 = 2;

/// A file of violations.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Baseline {
    api_version: String,
    kind: String,
    #[serde(default = "first_form")]
    form: u32,
    /// Digest of the policies that it was made with.
    policies: String,
    scope: ObjectSource,
    /// Sorted.
    results: Vec<BaselineEntry>,
}

fn first_form() -> u32 {
    1
}

impl Baseline {
    /// Reads a baseline.
    ///
    /// # Errors
    /// If the file cannot be read or is not a baseline, with the line.
    pub(crate) fn read(path: &Path, prune: bool) -> anyhow::Result<Self> {
        let shown = || format!("reading the baseline {}", path.display());
        let document = UnpackedFile::read(path).with_context(shown)?;
        anyhow::ensure!(
            !prune || !document.compressed,
            "{} is compressed: --prune-baseline cannot write it",
            path.display()
        );
        document.expect(KIND, path)?;
        let baseline: Self = serde_json::from_slice(&document.content).with_context(shown)?;
        anyhow::ensure!(
            (1..=FORM).contains(&baseline.form),
            "{} is a baseline of form {}, which this version of kaudit does not support: write it again with --write-baseline",
            path.display(),
            baseline.form
        );
        if baseline.form < FORM {
            warn!(
                file = %path.display(),
                "The baseline was written by an earlier version of kaudit, which did not count results that differ only in a number: \
                 additional ones are not reported as new. Write it again with --write-baseline"
            );
        }
        Ok(baseline)
    }

    /// Makes a baseline of the violations of a result.
    fn of(result: &AuditResult, check: &CheckArgs, policies: &str) -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            form: FORM,
            policies: policies.to_owned(),
            scope: check.scope.audited(&check.source).source,
            results: matching::entries(&result.results),
        }
    }

    fn write(&self, path: &Path) -> anyhow::Result<()> {
        let write = |out: &mut dyn std::io::Write| {
            write_json_pretty(&mut *out, self)?;
            out.write_all(b"\n")
        };
        if path.as_os_str() == "-" {
            return print(write);
        }
        replace_file(path, write).with_context(|| format!("writing the baseline {}", path.display()))
    }

    /// Skips the listed violations, and adds a summary of those that are fixed and those that cannot be compared.
    /// Returns the entries of the pruned baseline: without fixed violations, and with the present messages of reworded
    /// ones.
    fn apply(&self, result: &mut AuditResult, policies: &str, given: GivenManifests<'_>) -> Vec<BaselineEntry> {
        let comparison = BaselineComparison { counts: self.form >= FORM, other_policies: self.policies != policies };
        let matched = comparison.matched(&self.results, &result.results);
        let at = |object: &ObjectRef, entry: &Entry| {
            (object.identity(), Arc::clone(&entry.policy), Arc::clone(&entry.rule), entry.result)
        };
        let listed = matched.known.iter().map(|position| &result.results[*position]);
        let listed: HashSet<_> = listed.map(|entry| at(&entry.resource, entry)).collect();
        // A violation of a later dependent is not new if that of its owner is listed.
        let covered = |entry: &Entry| entry.covered_by.as_ref().is_some_and(|owner| listed.contains(&at(owner, entry)));
        let mut left: Vec<BaselineEntry> = Vec::new();
        let (reach, mut summary) = (Reach::of(result), BaselineSummary::default());
        for (position, entry) in self.results.iter().enumerate() {
            if let Some(renewed) = matched.reworded.get(&position) {
                left.push(BaselineEntry { file: entry.file.clone(), ..(&result.results[*renewed]).into() });
                continue;
            }
            if matched.unmatched.contains(&position) {
                match self.state_of(entry, &reach, given) {
                    BaselineState::Fixed => {
                        summary.fixed.push(entry.clone());
                        continue;
                    }
                    BaselineState::NotRead => summary.not_found.push(entry.clone()),
                    BaselineState::Incomparable(reason) => {
                        summary.incomparable.push(IncomparableEntry { entry: entry.clone(), reason });
                    }
                }
            }
            left.push(entry.clone());
        }
        let excuse = Arc::new(Excuse::baseline());
        for (position, entry) in result.results.iter_mut().enumerate() {
            if !entry.result.is_violation() || !(matched.known.contains(&position) || covered(entry)) {
                continue;
            }
            if entry.covered_by.is_none() {
                *result.summary.of(entry.result) -= 1;
                result.summary.skip += 1;
                summary.known += 1;
            }
            entry.result = Outcome::Skip;
            entry.excuse = Some(Arc::clone(&excuse));
        }
        result.baseline = Some(summary);
        result.count_objects();
        left.sort();
        left
    }

    /// Returns the state of a listed violation that was not found.
    fn state_of(&self, entry: &BaselineEntry, reach: &Reach<'_>, given: GivenManifests<'_>) -> BaselineState {
        let source = if given.content.is_some() { ObjectSource::Manifests } else { ObjectSource::Cluster };
        if self.scope != source {
            return BaselineState::Incomparable(format!("the baseline is of {}", self.scope));
        }
        let BaselineEntry { policy, rule, .. } = entry;
        if reach.has_rule(policy, rule) && !given.is_read(entry) || reach.leaves_out(policy, rule) {
            return BaselineState::NotRead;
        }
        reach.misses(entry).map_or(BaselineState::Fixed, BaselineState::Incomparable)
    }
}

/// The state of a listed violation that was not found.
enum BaselineState {
    Fixed,
    /// Its manifest was not given, or it is less severe than what is reported.
    NotRead,
    /// With the reason.
    Incomparable(String),
}

/// The manifests of a run.
#[derive(Clone, Copy)]
pub(crate) struct GivenManifests<'g> {
    /// What they contain; `None` if the run is of a cluster.
    pub(crate) content: Option<&'g ManifestContent>,
    /// Files and directories that were given.
    pub(crate) paths: &'g [PathBuf],
}

impl GivenManifests<'_> {
    /// Whether an object was read, or would have been if it still existed. A cluster is read as a whole; [`Reach`] has
    /// the parts that could not be read.
    fn is_read(self, entry: &BaselineEntry) -> bool {
        let Some(content) = self.content else { return true };
        let name: ObjectName = (entry.kind.clone(), entry.name.clone());
        let within = |file: &str| self.paths.iter().any(|path| plain(Path::new(file)).starts_with(plain(path)));
        content.objects.contains(&name) || entry.file.as_deref().is_some_and(within)
    }
}

/// Returns a path without `.`, and without `..` where possible.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut plain, part| {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(plain.components().next_back(), Some(Component::Normal(_))) => {
                plain.pop();
            }
            part => plain.push(part),
        }
        plain
    })
}

/// Compares a result with a baseline, writes a baseline, or writes draft exceptions, according to the options.
///
/// # Errors
/// When a file cannot be written.
pub(crate) fn settle(
    result: &mut AuditResult,
    check: &CheckArgs,
    policies: &str,
    baseline: Option<Baseline>,
    content: Option<&ManifestContent>,
) -> anyhow::Result<()> {
    let options = &check.exceptions;
    let given = GivenManifests { content, paths: &check.source.manifests.filename };
    if let (Some(path), Some(mut baseline)) = (&options.baseline, baseline) {
        let left = baseline.apply(result, policies, given);
        if let Some(summary) = &mut result.baseline {
            summary.is_pruned = options.prune_baseline;
        }
        if options.prune_baseline && left != baseline.results {
            baseline.results = left;
            baseline.write(path)?;
        }
    }
    // Listed violations need no exception.
    if let Some(path) = &options.write_exceptions {
        drafts::write(path, result)?;
    }
    if let Some(path) = &options.write_baseline {
        let baseline = Baseline::of(result, check, policies);
        baseline.write(path)?;
        baseline.apply(result, policies, given);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_within_what_was_given() {
        let content = ManifestContent::default();
        let is_read = |path: &str, file: &str| {
            let entry = BaselineEntry {
                kind: "Pod".into(),
                name: "n/a".into(),
                policy: "p".into(),
                rule: "deny".into(),
                id: crate::audit::fingerprint::Fingerprint::parse("0000000000000001").unwrap(),
                message: String::new(),
                value: None,
                file: Some(file.to_owned()),
            };
            GivenManifests { content: Some(&content), paths: &[path.into()] }.is_read(&entry)
        };
        for (path, file) in [
            ("m", "m/a.yaml"),
            ("./m/", "m/b/a.yaml"),
            (".", "m/a.yaml"),
            ("m/a.yaml", "./m/a.yaml"),
            ("m/../n", "n/a"),
        ] {
            assert!(is_read(path, file), "{path} {file}");
        }
        for (path, file) in
            [("m", "n/a.yaml"), ("m", "m2/a.yaml"), ("m/a.yaml", "m/b.yaml"), ("-", "m/a.yaml"), ("/m", "m/a")]
        {
            assert!(!is_read(path, file), "{path} {file}");
        }
    }
}
