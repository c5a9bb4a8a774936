//! `check -f`: manifests, once, without a cluster.

use std::{collections::HashMap, path::Path, sync::Arc};

use anyhow::Context as _;
use tokio::task::block_in_place;
use tokio_util::sync::CancellationToken;

use super::fixing;
use crate::{
    audit::result::{AuditResult, Entry},
    blocking::spawn_blocking,
    cli::check::CheckArgs,
    metrics::Metrics,
    output::{self, Format},
    run::{
        baseline::{self, Baseline},
        checked,
        wiring::{self, AuditRules, Wiring},
        with_cluster::ClusterOfManifests,
    },
    source::{
        manifest::{self, FieldLines, ManifestContent, ManifestFile, is_stdin},
        selection::Selection,
    },
};

/// How many documents are queued for the pipeline. Few, since they are read faster than they are evaluated.
const DOCUMENTS: usize = 128;

/// Finds the lines of the fields that results are about.
fn locate_fields(results: &mut [Entry]) {
    let mut files: HashMap<Arc<str>, Option<FieldLines>> = HashMap::new();
    for entry in results {
        let (Some(location), Some(field)) = (&entry.location, entry.field()) else { continue };
        let lines =
            files.entry(Arc::clone(&location.file)).or_insert_with(|| FieldLines::read(Path::new(&*location.file)));
        entry.field_line = lines.as_ref().and_then(|lines| lines.line(location.line, field));
    }
}

/// Checks manifests; returns the exit code.
pub(super) async fn run(
    check: &CheckArgs,
    rules: AuditRules,
    baseline: Option<Baseline>,
    stop: CancellationToken,
    metrics: Arc<Metrics>,
) -> anyhow::Result<u8> {
    let mut files = manifest::files(&check.source.manifests.filename)?;
    for path in check.source.manifests.filename.iter().filter(|_| check.fixing.fix) {
        // A stream is empty when it is read again after the fixes.
        let is_stream = is_stdin(path) || path.metadata().is_ok_and(|there| !there.is_file() && !there.is_dir());
        anyhow::ensure!(!is_stream, "--fix changes files: {} is not a file", path.display());
    }
    manifest::download(&mut files).await?;
    let cluster = if check.with_cluster {
        Some(ClusterOfManifests::read(check, &rules.policies, &stop, Arc::clone(&metrics)).await?)
    } else {
        None
    };
    let run = ManifestCheck { check, files: files.into(), cluster, stop, metrics };
    let policies = rules.policies.digest.to_string();
    let rules_for_fixes = check.fixing.fix.then(|| rules.clone());
    // A baseline needs the names of the objects that were read, to find its fixed violations.
    let listed = baseline.is_some();
    let (mut result, mut content) = run.evaluate(rules, listed).await?;
    if check.fixing.diff {
        return block_in_place(|| fixing::show(&result, &run.files));
    }
    if let Some(rules) = rules_for_fixes {
        let mut fixed = fixing::AppliedFixes::default();
        while block_in_place(|| fixed.fix(&result, &run.files)) {
            (result, content) = run.evaluate(rules.clone(), listed).await?;
        }
        fixed.report(&result);
    }
    baseline::settle(&mut result, check, &policies, baseline, Some(&content))?;
    let unplaced = content.has_unplaced.then_some((None, 1));
    let excluded = Selection { excluded_namespaces: check.scope.exclude_namespace.clone(), ..Selection::default() };
    let checked = content.namespaces.into_iter().filter(|namespace| !excluded.excludes_namespace(namespace));
    result.namespaces = checked.map(|namespace| (Some(namespace), 1)).chain(unplaced).collect();
    result.repeated = content.repeated;
    block_in_place(|| {
        locate_fields(&mut result.results);
        if check.output.iter().any(|target| target.format == Format::Sarif) {
            fixing::find_edits(&mut result.results);
        }
    });
    super::write_results(check, &result)?;
    Ok(output::exit_code(&result, check.fail_on, true))
}

/// A check of manifest files, which is repeated after fixes.
struct ManifestCheck<'c> {
    check: &'c CheckArgs,
    files: Arc<[ManifestFile]>,
    cluster: Option<ClusterOfManifests>,
    stop: CancellationToken,
    metrics: Arc<Metrics>,
}

impl ManifestCheck<'_> {
    /// Reads and evaluates the present contents of the files; `listed` collects the names of all objects.
    async fn evaluate(&self, rules: AuditRules, listed: bool) -> anyhow::Result<(AuditResult, ManifestContent)> {
        let Self { check, files, cluster, stop, metrics } = self;
        let (mut wiring, changes, _) = Wiring::new(DOCUMENTS, &rules.policies, stop.clone(), Arc::clone(metrics));
        let placement = cluster.as_ref().map(|cluster| Arc::clone(&cluster.placement));
        let selection = Selection { of_files: true, placement, ..check.scope.selection(Some(&rules.policies)) };
        if let Some(cluster) = cluster {
            wiring.look_up(Arc::clone(&cluster.objects));
        }
        let (files, secrets) = (Arc::clone(files), check.source.manifests.secrets);
        wiring.select(&selection);
        let reading = spawn_blocking(move || manifest::read(&files, &selection, secrets, listed, &changes));
        let settings = wiring::settings(check, &rules.policies);
        let mut result = wiring.judge_once(settings, rules).await?;
        let content = reading.await.context("reading the manifests")?;
        checked::of_manifests(&result, &check.scope, &check.source.manifests.filename, &content)?;
        result.scope = Some(check.scope.audited(&check.source));
        Ok((result, content))
    }
}
