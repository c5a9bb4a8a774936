//! `check -f`: manifests, once, without a cluster.

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{
    baseline::{self, Baseline},
    wiring::{self, Rules, Wiring},
};
use crate::{cli::check::CheckArgs, output, source::manifest};

/// Documents between the files and the pipeline. Few: they are read faster than they are judged.
const DOCUMENTS: usize = 128;

/// Judges manifests; returns the exit code.
pub(super) async fn run(
    check: &CheckArgs,
    rules: Rules,
    baseline: Option<Baseline>,
    stop: CancellationToken,
) -> anyhow::Result<u8> {
    let files = manifest::files(&check.source.manifests.filename)?;
    let (wiring, changes, _) = Wiring::new(DOCUMENTS, &rules.policies, stop);
    let (selection, secrets) = (check.scope.selection(Some(&rules.policies)), check.source.manifests.secrets);
    let mut source = JoinSet::new();
    source.spawn_blocking(move || manifest::read(&files, &selection, secrets, &changes));
    let policies = rules.policies.digest.to_string();
    let settings = wiring::settings(check, &rules.policies);
    let mut result = wiring.judge_once(settings, rules).await?;
    if result.summary.objects == 0 {
        // Also when the command in front of a pipe failed: where nothing was judged, nothing is clean.
        let why = result.coverage.first().map_or("there is no object in what was given", |kind| &kind.message);
        anyhow::bail!("nothing was judged: {why}");
    }
    result.scope = Some(check.scope.audited(&check.source));
    baseline::settle(&mut result, check, &policies, baseline)?;
    output::write_all(&check.output, &result, check.log.color, check.place)?;
    Ok(output::exit_code(&result, check.fail_on, true))
}
