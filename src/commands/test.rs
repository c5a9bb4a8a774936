//! `kaudit test`: the unit tests of policies.
//!
//! In: the paths of policies. Out: one [`TestRun`] with a result for each test, whatever its kind, written by
//! [`output`]. Tests run in parallel, and are reported in the order of their files and lines.

mod cases;
pub mod coverage;
pub mod output;
mod rego;
pub mod result;
mod suite;

use anyhow::bail;
use tracing::warn;

use self::{
    coverage::{Covered, LineCoverage},
    rego::RegoTests,
    result::{TestResult, TestRun},
    suite::SuiteTests,
};
use crate::{
    blocking::in_parallel,
    cli::test::TestArgs,
    judge::{
        load_options::LoadOptions,
        sources::{FileSource, PolicySource},
        tested,
    },
    rego::{Limits, LoadError, Problem},
};

/// Runs `kaudit test`; returns the exit code.
///
/// # Errors
/// If no test could run. The message says what to do; the exit code is 2.
pub fn run(options: &TestArgs) -> anyhow::Result<u8> {
    let limits = Limits { evaluation: options.timeout, ..Limits::default() };
    let load_options = LoadOptions { gatekeeper_engine: options.gatekeeper.gatekeeper_engine, ..limits.into() };
    let tested = tested::load(&files(&options.sources)?, &limits)?;
    let filter = options.run.clone().unwrap_or_default();
    let mut problems = tested.problems.clone();
    let suites = SuiteTests::find(&tested.others, &filter, &mut problems);
    if problems.iter().any(Problem::is_refusal) {
        return Err(LoadError::new(problems).into());
    }
    for problem in &problems {
        warn!("{problem}");
    }
    let rego = RegoTests::find(&tested, &filter);
    let count = rego.len() + suites.len();
    if count == 0 {
        bail!(nothing_to_run(options));
    }
    let covers = options.coverage || options.threshold.is_some();
    let ended = in_parallel((0..count).collect(), |index: usize| {
        let mut covered = Covered::default();
        let result = match index.checked_sub(rego.len()) {
            None => rego.run(index, covers.then_some(&mut covered)),
            Some(index) => suites.run(index, &load_options),
        };
        (result, covered)
    });
    let (results, each): (Vec<TestResult>, Vec<Covered>) = ended.into_iter().unzip();
    let covered = each.into_iter().fold(Covered::default(), |mut all, lines| {
        all.merge(lines);
        all
    });
    let run = TestRun {
        results,
        coverage: covers.then(|| LineCoverage::new(&tested, &covered)),
        threshold: options.threshold,
    };
    output::write(&run, options)?;
    Ok(run.exit_code())
}

/// Returns the sources if all of them are local.
///
/// # Errors
/// Returns a problem for each bundle and each source in a cluster.
fn files(sources: &[PolicySource]) -> Result<Vec<FileSource>, LoadError> {
    let (mut local, mut problems) = (Vec::new(), Vec::new());
    for source in sources {
        let refused = |message| Problem::refused(&source.to_string().into(), message);
        match source {
            PolicySource::Path(path) => local.push(FileSource::Path(path.clone())),
            PolicySource::Builtin(part) => local.push(FileSource::Builtin(part.clone())),
            PolicySource::Cluster(_) => problems.push(refused("this command does not read policies from a cluster")),
            PolicySource::Bundle(_) => {
                let problem = refused("this command does not read bundles");
                problems.push(problem.help("use the directory that the bundle was built from"));
            }
        }
    }
    if problems.is_empty() { Ok(local) } else { Err(LoadError::new(problems)) }
}

fn nothing_to_run(options: &TestArgs) -> String {
    let paths: Vec<String> = options.sources.iter().map(ToString::to_string).collect();
    let paths = paths.join(", ");
    if options.sources.iter().all(|source| matches!(source, PolicySource::Builtin(_))) {
        return format!(
            "no test in {paths}: the builtin library has no tests in kaudit; give the directory of your tests as well"
        );
    }
    match options.run {
        Some(_) => format!("no test in {paths} has a name that --run matches"),
        None => format!("no test in {paths}: looked for rules named test_… in .rego files and for Gatekeeper suites"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundles_and_cluster_objects_are_refused() {
        let local = files(&["policies", "builtin:rbac"].map(PolicySource::from)).unwrap();
        assert_eq!(local, [FileSource::Path("policies".into()), FileSource::Builtin("rbac".to_owned())]);
        let error = files(&["policies", "cluster:gatekeeper", "oci://r/a:1"].map(PolicySource::from)).unwrap_err();
        let refused: Vec<&str> = error.problems.iter().map(|problem| &*problem.file).collect();
        assert_eq!(refused, ["cluster:gatekeeper", "oci://r/a:1"]);
    }
}
