//! `check -f`: manifests, once, without a cluster.

use std::{collections::HashMap, path::Path, sync::Arc};

use anyhow::Context as _;
use serde_json::Value;
use tokio::task::block_in_place;
use tokio_util::sync::CancellationToken;

use super::{
    baseline::{self, Baseline},
    checked,
    wiring::{self, Rules, Wiring},
};
use crate::{
    audit::result::Entry,
    blocking::spawn_blocking,
    cli::check::CheckArgs,
    metrics::Metrics,
    output,
    source::{
        manifest::{self, FieldLines},
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
    manifest::download(&mut files).await?;
    let (mut wiring, changes, _) = Wiring::new(DOCUMENTS, &rules.policies, stop, metrics);
    let selection = Selection { of_files: true, ..check.scope.selection(Some(&rules.policies)) };
    let secrets = check.source.manifests.secrets;
    wiring.select(&selection);
    let excluded = Selection { excluded_namespaces: selection.excluded_namespaces.clone(), ..Selection::default() };
    // Which objects were read says what of a baseline is fixed.
    let listed = baseline.is_some();
    let reading = spawn_blocking(move || manifest::read(&files, &selection, secrets, listed, &changes));
    let policies = rules.policies.digest.to_string();
    let settings = wiring::settings(check, &rules.policies);
    let mut result = wiring.judge_once(settings, rules).await?;
    let content = reading.await.context("reading the manifests")?;
    checked::of_manifests(&result, &check.scope, &content)?;
    result.scope = Some(check.scope.audited(&check.source));
    baseline::settle(&mut result, check, &policies, baseline, Some(&content))?;
    let unplaced = content.has_unplaced.then_some((None, 1));
    let checked = content.namespaces.into_iter().filter(|namespace| !excluded.excludes_namespace(namespace));
    result.namespaces = checked.map(|namespace| (Some(namespace), 1)).chain(unplaced).collect();
    result.repeated = content.repeated;
    block_in_place(|| locate_fields(&mut result.results));
    let writing = Span::begin("write results");
    output::write_all(&check.output, &result, check.log.color, &check.rendering())?;
    writing.end();
    Ok(output::exit_code(&result, check.fail_on, true))
}
