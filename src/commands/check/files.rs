//! `check -f`: manifests, once, without a cluster.

use std::sync::Arc;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::wiring::Wiring;
use crate::{cli::check::CheckArgs, judge::set::PolicySet, output, source::manifest};

/// Documents between the files and the pipeline. Few: they are read faster than they are judged.
const DOCUMENTS: usize = 128;

/// Judges manifests; returns the exit code.
pub(super) async fn run(check: &CheckArgs, policies: Arc<PolicySet>, stop: CancellationToken) -> anyhow::Result<u8> {
    let files = manifest::files(&check.filename)?;
    let (wiring, changes, _) = Wiring::new(DOCUMENTS, &policies, stop);
    let (selection, secrets) = (check.scope.selection(Some(&policies)), check.secrets);
    let mut source = JoinSet::new();
    source.spawn_blocking(move || manifest::read(&files, &selection, secrets, &changes));
    let result = wiring.judge_once(check, policies).await?;
    if result.coverage.iter().all(|kind| kind.objects == 0) {
        // Also when the command in front of a pipe failed: where nothing was judged, nothing is clean.
        let why = result.coverage.first().map_or("there is no object in what was given", |kind| &kind.message);
        anyhow::bail!("nothing was judged: {why}");
    }
    output::write_all(&check.output, &result, check.log.color, check.place)?;
    Ok(output::exit_code(&result, check.fail_on, true))
}
