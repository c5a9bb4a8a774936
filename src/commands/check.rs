//! `kaudit check`: wires source, pipeline and recorders together.
//!
//! Manifests ([`files`]), a cluster [`once`], several [`clusters`], and the long run ([`watch`](mod@watch)) differ only
//! in the source and the recorders; the pipeline between them is the same.

mod clusters;
mod files;
mod fixing;
mod lines;
mod once;
mod watch;

use std::{future::pending, sync::Arc};

use futures::FutureExt as _;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    audit::result::AuditResult,
    cli::check::{CheckArgs, CheckMode},
    output,
    run::{
        baseline::Baseline,
        exceptions::{self, ExceptionFiles},
        policies::{self, SourceState},
        signals::signals,
        sources::PolicySources,
        wiring::{AuditRules, INTERRUPTED},
    },
    telemetry::{Span, Telemetry},
};

/// Runs `kaudit check` until it is done or a signal comes; returns the exit code.
///
/// # Errors
/// If nothing could be checked. The message says what to do; the exit code is 2.
pub async fn run(check: CheckArgs, telemetry: &Telemetry) -> anyhow::Result<u8> {
    begin(check, telemetry, None).await
}

/// Runs `kaudit check` like [`run`], but until `stop` instead of a signal.
///
/// # Errors
/// As [`run`].
pub async fn run_until(check: CheckArgs, telemetry: &Telemetry, stop: CancellationToken) -> anyhow::Result<u8> {
    begin(check, telemetry, Some(stop)).await
}

async fn begin(check: CheckArgs, telemetry: &Telemetry, stop: Option<CancellationToken>) -> anyhow::Result<u8> {
    if check.mode() == CheckMode::Watch {
        // This span ends when all objects that exist at the start are evaluated.
        return Box::pin(judge(check, telemetry, Span::run("start"), stop)).await;
    }
    let span = Span::run("check");
    span.make_default_parent();
    let outcome = Box::pin(judge(check, telemetry, span.clone(), stop)).await;
    span.set(|| [("process.exit.code", i64::from(*outcome.as_ref().unwrap_or(&output::ERROR_CODE)).into())]);
    if outcome.is_err() {
        span.fail("not_judged");
    }
    span.end();
    outcome
}

/// Loads policies and exceptions and checks in the selected mode; `span` covers the start.
async fn judge(
    check: CheckArgs,
    telemetry: &Telemetry,
    span: Span,
    stop: Option<CancellationToken>,
) -> anyhow::Result<u8> {
    let watching = check.mode() == CheckMode::Watch;
    clusters::check_options(&check)?;
    // The long run logs its notes: programs may read its log and need lines of one format.
    let say = |note: &str| if watching { info!("{note}") } else { crate::output::note(note) };
    let poll = watching.then_some(check.poll);
    let (stop, stopped_twice) = if let Some(stop) = stop {
        (stop, pending().left_future())
    } else {
        let stop = CancellationToken::new();
        (stop.clone(), signals(stop)?.right_future())
    };
    let metrics = || Arc::clone(telemetry.metrics());
    let running = async {
        let loading = async {
            let sources =
                PolicySources::chosen(&check.policies.sources, &check.reading, &check.cluster, poll, say).await?;
            let state = SourceState::of(&sources).await;
            let exception_files = ExceptionFiles::new(&check.exceptions.given.files).await;
            let rules = Box::pin(rules(&check, &state, &span)).await?;
            anyhow::Ok((sources, state, exception_files, rules))
        };
        let Some(loaded) = stop.run_until_cancelled(Box::pin(loading)).await else {
            anyhow::ensure!(watching, INTERRUPTED);
            return Ok(0);
        };
        let (sources, state, exception_files, rules) = loaded?;
        let prune = check.exceptions.prune_baseline;
        let baseline = check.exceptions.baseline.as_deref().map(|path| Baseline::read(path, prune)).transpose()?;
        match check.mode() {
            CheckMode::Files => files::run(&check, rules, baseline, stop, metrics()).await,
            CheckMode::Once => Box::pin(once::run(&check, rules, baseline, stop, metrics())).await,
            CheckMode::Clusters => Box::pin(clusters::run(&check, &rules, baseline, stop, metrics())).await,
            CheckMode::Watch => {
                let sources = (sources, state);
                let inputs = watch::WatchInputs { rules, sources, exception_files, metrics: metrics(), span };
                Box::pin(watch::run(&check, inputs, stop)).await
            }
        }
    };
    tokio::select! {
        code = Box::pin(running) => code,
        () = stopped_twice => {
            telemetry.give_up();
            anyhow::bail!("stopped at once by a second signal: pending records were not written")
        }
    }
}

/// Loads the policies and exceptions.
async fn rules(check: &CheckArgs, state: &SourceState, span: &Span) -> anyhow::Result<AuditRules> {
    let (watching, options) = (check.mode() == CheckMode::Watch, check.load_options());
    let loaded = if watching {
        span.within(policies::load_followed(&state.sources, &options)).await?
    } else {
        span.within(policies::load(&state.sources, &options)).await?
    };
    let policies = Arc::new(loaded?);
    policies::log_problems(&policies, check.shard());
    // A watch may get further policies later.
    if !watching {
        policies.rule_changes.check(&policies.policies)?;
    } else if !policies.rule_changes.unmatched.is_empty() {
        let patterns = policies.rule_changes.unmatched.join(", ");
        warn!(patterns, "These rule settings match no loaded rule");
    }
    info!(rules = policies.rules(), policies = policies.policies.len(), "Policies loaded");
    let mut exceptions = exceptions::load(&check.exceptions.given).await?;
    if !watching {
        exceptions = exceptions.checked(&policies)?;
    }
    Ok(AuditRules { policies, exceptions })
}

/// Writes a result to all targets.
fn write_results(check: &CheckArgs, result: &AuditResult) -> anyhow::Result<()> {
    let writing = Span::begin("write results");
    let written = output::write_all(&check.output, result, check.log.color, &check.rendering());
    writing.end();
    written
}
