//! `check -f`: manifests, once, without a cluster.

use std::{collections::HashMap, path::Path, sync::Arc};

use anyhow::Context as _;
use serde_json::Value;
use tokio::task::block_in_place;
use tokio_util::sync::CancellationToken;

use super::{
    baseline::{self, Baseline},
    checked, fixing,
    wiring::{self, Rules, Wiring},
};
use crate::{
    audit::result::{AuditResult, Entry},
    blocking::spawn_blocking,
    cli::check::CheckArgs,
    metrics::Metrics,
    output::{self, Format},
    source::{
        manifest::{self, FieldLines, ManifestContent, ManifestFile},
        selection::Selection,
    },
    telemetry::Span,
};

/// Documents between the files and the pipeline. Few: they are read faster than they are judged.
const DOCUMENTS: usize = 128;

/// Finds the lines of the fields that results are about.
fn locate_fields(results: &mut [Entry]) {
    let mut files: HashMap<Arc<str>, Option<FieldLines>> = HashMap::new();
    for entry in results {
        let (Some(location), Some(field)) = (&entry.location, entry.details.get("field").and_then(Value::as_str))
        else {
            continue;
        };
        let lines =
            files.entry(Arc::clone(&location.file)).or_insert_with(|| FieldLines::read(Path::new(&*location.file)));
        entry.field_line = lines.as_ref().and_then(|lines| lines.line(location.line, field));
    }
}

/// Judges manifests; returns the exit code.
pub(super) async fn run(
    check: &CheckArgs,
    rules: Rules,
    baseline: Option<Baseline>,
    stop: CancellationToken,
    metrics: Arc<Metrics>,
) -> anyhow::Result<u8> {
    let mut files = manifest::files(&check.source.manifests.filename)?;
    for path in check.source.manifests.filename.iter().filter(|_| check.fixing.fix) {
        // What can be read once only is not there for the second reading.
        let is_stream =
            path.as_os_str() == "-" || path.metadata().is_ok_and(|there| !there.is_file() && !there.is_dir());
        anyhow::ensure!(!is_stream, "--fix changes files: {} is none", path.display());
    }
    manifest::download(&mut files).await?;
    let judging = ManifestCheck { check, rules, files, stop, metrics };
    // Which objects were read says what of a baseline is fixed.
    let listed = baseline.is_some();
    let (mut result, mut content) = judging.judge(listed).await?;
    if check.fixing.diff {
        return block_in_place(|| fixing::show(&result, &judging.files));
    }
    if check.fixing.fix {
        let mut fixed = fixing::AppliedFixes::default();
        while block_in_place(|| fixed.fix(&result, &judging.files)) {
            (result, content) = judging.judge(listed).await?;
        }
        fixed.tell(&result);
    }
    let policies = judging.rules.policies.digest.to_string();
    baseline::settle(&mut result, check, &policies, baseline, Some(&content))?;
    let unplaced = content.has_unplaced.then_some((None, 1));
    let excluded = judging.selection();
    let checked = content.namespaces.into_iter().filter(|namespace| !excluded.excludes_namespace(namespace));
    result.namespaces = checked.map(|namespace| (Some(namespace), 1)).chain(unplaced).collect();
    result.repeated = content.repeated;
    block_in_place(|| {
        locate_fields(&mut result.results);
        if check.output.iter().any(|target| target.format == Format::Sarif) {
            fixing::find_edits(&mut result.results);
        }
    });
    let writing = Span::begin("write results");
    output::write_all(&check.output, &result, check.log.color, &check.rendering())?;
    writing.end();
    Ok(output::exit_code(&result, check.fail_on, true))
}

/// What manifests are judged by.
struct ManifestCheck<'c> {
    check: &'c CheckArgs,
    rules: Rules,
    files: Vec<ManifestFile>,
    stop: CancellationToken,
    metrics: Arc<Metrics>,
}

impl ManifestCheck<'_> {
    fn selection(&self) -> Selection {
        Selection { of_files: true, ..self.check.scope.selection(Some(&self.rules.policies)) }
    }

    /// Reads and judges the files as they are now; all objects are `listed` if that is asked for.
    async fn judge(&self, listed: bool) -> anyhow::Result<(AuditResult, ManifestContent)> {
        let Self { check, rules, stop, metrics, .. } = self;
        let (mut wiring, changes, _) = Wiring::new(DOCUMENTS, &rules.policies, stop.clone(), Arc::clone(metrics));
        let (files, selection) = (self.files.clone(), self.selection());
        let secrets = check.source.manifests.secrets;
        wiring.select(&selection);
        let reading = spawn_blocking(move || manifest::read(&files, &selection, secrets, listed, &changes));
        let settings = wiring::settings(check, &rules.policies);
        let mut result = wiring.judge_once(settings, rules.clone()).await?;
        let content = reading.await.context("reading the manifests")?;
        checked::of_manifests(&result, &check.scope, &check.source.manifests.filename, &content)?;
        result.scope = Some(check.scope.audited(&check.source));
        Ok((result, content))
    }
}
