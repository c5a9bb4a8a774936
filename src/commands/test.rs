//! `kaudit test`: the unit tests of policies.
//!
//! In: the paths of policies. Out: one [`TestRun`] with a result for each test, whatever its kind, written by
//! [`output`]. Tests are run side by side, each in an engine of its own, and are told in the order of their places.

mod coverage;
mod explain;
pub mod output;
mod rego;
mod show;
mod suite;

use std::{
    num::NonZero,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use anyhow::{Context as _, bail};
use serde::Serialize;
use tracing::warn;

pub use self::coverage::{Coverage, FileCoverage};
use self::{coverage::Covered, rego::RegoTests, suite::SuiteTests};
use crate::{
    cli,
    judge::tested,
    rego::{
        limits::Limits,
        problem::{LoadError, Problem},
    },
};

/// Evaluation walks the syntax tree by recursion; twice of what [`Limits::stack`] allows, and room for the rest.
const STACK_BYTES: usize = 16 << 20;

/// How a test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// As it should.
    Pass,
    /// What it claims is not so.
    Fail,
    /// It could not be run to its end.
    Error,
    /// It is not to be run.
    Skip,
}

/// What a test belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TestKind {
    /// A rule `test_…`; its group is the package.
    Rego,
    /// A test of a Gatekeeper suite; its group is the suite's file.
    Suite,
}

/// One test.
#[derive(Debug, Clone, Serialize)]
pub struct TestResult {
    /// What it belongs to.
    pub kind: TestKind,
    /// The package as `data.…`, or the file of the suite.
    pub group: String,
    /// Its name in the group.
    pub name: String,
    /// How it ended.
    pub outcome: Outcome,
    /// The file that it stands in.
    pub file: String,
    /// Its first line; 0 if it is not known.
    pub line: u32,
    /// Why it did not pass, where one sentence says it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The statement that did not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Explanation>,
    /// What its policies printed, by lines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub output: Vec<String>,
    /// Its cases, if it has any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cases: Vec<Case>,
    /// How long it took; not part of what is reproducible.
    #[serde(skip)]
    pub took: Duration,
}

/// One case of a test.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// How it ended; with cases of its own, the worst of these.
    pub outcome: Outcome,
    /// Why it did not pass, where one sentence says it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The statement that did not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Explanation>,
    /// What its policies printed, by lines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub output: Vec<String>,
    /// Cases below it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cases: Vec<Self>,
}

/// The first statement of a test that did not hold, and what stood in it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// The file that it stands in.
    pub file: String,
    /// Its first line.
    pub line: u32,
    /// What is wrong with it: `is false`, `is undefined`.
    pub reason: String,
    /// The statement, on one line.
    pub code: String,
    /// The values of its parts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Named>,
}

/// A part of a statement and its value, as Rego.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Named {
    /// The part as it is written.
    pub name: String,
    /// Its value, cut if it is long; `undefined` if it has none.
    pub value: String,
}

/// How many tests ended how. Of a test with cases, these count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// All of them.
    pub total: usize,
    /// Those that passed.
    pub pass: usize,
    /// Those that failed.
    pub fail: usize,
    /// Those that could not be run to their end.
    pub error: usize,
    /// Those that were not run.
    pub skip: usize,
}

/// What all tests together gave.
#[derive(Debug, Clone)]
pub struct TestRun {
    /// One for each test, sorted by file and line.
    pub results: Vec<TestResult>,
    /// Which lines of the policies were evaluated, if that was asked for.
    pub coverage: Option<Coverage>,
    /// Percentage that the coverage must reach.
    pub threshold: Option<f64>,
}

impl TestRun {
    /// Counts the results.
    pub fn summary(&self) -> Summary {
        let mut summary = Summary::default();
        for result in &self.results {
            if result.cases.is_empty() {
                summary.add(result.outcome);
            } else {
                summary.cases(&result.cases);
            }
        }
        summary
    }

    /// Whether the coverage is less than it must be.
    pub fn below_threshold(&self) -> bool {
        let coverage = self.coverage.as_ref().map_or(0.0, |coverage| coverage.coverage);
        self.threshold.is_some_and(|threshold| coverage < threshold)
    }

    /// Returns 1 if something did not pass that was run, else 0.
    pub fn exit_code(&self) -> u8 {
        let bad = |result: &TestResult| matches!(result.outcome, Outcome::Fail | Outcome::Error);
        u8::from(self.below_threshold() || self.results.iter().any(bad))
    }
}

impl Summary {
    fn add(&mut self, outcome: Outcome) {
        self.total += 1;
        *match outcome {
            Outcome::Pass => &mut self.pass,
            Outcome::Fail => &mut self.fail,
            Outcome::Error => &mut self.error,
            Outcome::Skip => &mut self.skip,
        } += 1;
    }

    fn cases(&mut self, cases: &[Case]) {
        for case in cases {
            if case.cases.is_empty() { self.add(case.outcome) } else { self.cases(&case.cases) }
        }
    }
}

/// Runs `kaudit test`; returns the exit code.
///
/// # Errors
/// When nothing could be run, with what to do; the exit code is 2 then.
pub fn run(options: &cli::Test) -> anyhow::Result<u8> {
    let limits = Limits { evaluation: options.timeout, ..Limits::default() };
    let tested = tested::load(&options.paths, &limits)?;
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
    let (results, covered) = side_by_side(count, |index, covered| match index.checked_sub(rego.len()) {
        None => rego.run(index, &limits, covers.then_some(covered)),
        Some(index) => suites.run(index, &limits),
    })?;
    let run =
        TestRun { results, coverage: covers.then(|| Coverage::new(&tested, &covered)), threshold: options.threshold };
    output::write(&run, options)?;
    Ok(run.exit_code())
}

fn nothing_to_run(options: &cli::Test) -> String {
    let paths: Vec<String> = options.paths.iter().map(|path: &PathBuf| path.display().to_string()).collect();
    let paths = paths.join(", ");
    match options.run {
        Some(_) => format!("no test in {paths} has a name that --run matches"),
        None => format!("no test in {paths}: looked for rules named test_… in .rego files and for Gatekeeper suites"),
    }
}

/// Runs `count` tests on all cores; returns the results in order.
fn side_by_side(
    count: usize,
    run: impl Fn(usize, &mut Covered) -> TestResult + Sync,
) -> anyhow::Result<(Vec<TestResult>, Covered)> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(count);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut covered = Covered::default();
        let mut results = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return (results, covered);
            }
            results.push((index, run(index, &mut covered)));
        }
    };
    thread::scope(|scope| {
        let start = |_| thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work);
        let started =
            (0..threads).map(start).collect::<Result<Vec<_>, _>>().context("starting threads for the tests")?;
        let mut results = Vec::with_capacity(count);
        let mut covered = Covered::default();
        for thread in started {
            let Ok((some, lines)) = thread.join() else { bail!("a test ended kaudit's thread; please report it") };
            results.extend(some);
            covered.merge(lines);
        }
        results.sort_by_key(|(index, _)| *index);
        Ok((results.into_iter().map(|(_, result)| result).collect(), covered))
    })
}

#[cfg(test)]
mod tests {
    use crate::cli::filter::Filter;

    #[test]
    fn filters_mean_what_they_mean_elsewhere() {
        let takes = |filter: &str, name: &str| Filter::parse(filter).unwrap().takes_rule(name);
        assert!(Filter::default().takes_rule("data.a.test_b"));
        assert!(takes("a.*b", "data.a.test_b") && !takes("^a", "data.a.test_b") && !takes("a//b", "data.a.test_b"));
        assert!(Filter::parse("a//b//c").is_err());
        assert_eq!(Filter::parse("(").unwrap_err(), "unclosed group");
    }
}
