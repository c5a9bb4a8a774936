//! The results of a test run: one model for all kinds of tests and all formats.

use std::time::Duration;

use serde::Serialize;

use super::coverage::LineCoverage;
use crate::commands::explainer::Explanation;

/// How a test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TestOutcome {
    /// Its assertions hold.
    Pass,
    /// An assertion does not hold.
    Fail,
    /// It could not be run to its end.
    Error,
    /// It is marked to be skipped.
    Skip,
}

/// The two kinds of tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TestKind {
    /// A rule `test_…`; its group is the package.
    Rego,
    /// A test of a Gatekeeper suite; its group is the suite's file.
    Suite,
}

/// The result of one test.
#[derive(Debug, Clone, Serialize)]
pub struct TestResult {
    /// Whether it is a rule or of a suite.
    pub kind: TestKind,
    /// The package as `data.…`, or the file of the suite.
    pub group: String,
    /// Its name, unique in the group.
    pub name: String,
    /// How it ended.
    pub outcome: TestOutcome,
    /// The file that defines it.
    pub file: String,
    /// Its first line; 0 if unknown.
    pub line: u32,
    /// Why it did not pass, where one sentence says it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The statement that did not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Explanation>,
    /// The lines that its policies printed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub output: Vec<String>,
    /// Its cases, if it has any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cases: Vec<Case>,
    /// How long it took; shown only with `-v`, since it is not reproducible.
    #[serde(skip)]
    pub took: Duration,
}

/// One case of a table test or of a suite's test.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Case {
    /// The key in its table, or the name in its suite.
    pub name: String,
    /// How it ended; the worst of its cases, if it has any.
    pub outcome: TestOutcome,
    /// Why it did not pass, where one sentence says it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The statement that did not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Explanation>,
    /// The lines that its policies printed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub output: Vec<String>,
    /// Cases below it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cases: Vec<Self>,
}

/// The number of tests by outcome. Of a test with cases, the cases are counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct TestSummary {
    /// All tests, whatever their outcome.
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

/// The results of all tests of one run.
#[derive(Debug, Clone)]
pub struct TestRun {
    /// One for each test, sorted by file and line.
    pub results: Vec<TestResult>,
    /// Which lines of the policies were evaluated, if requested.
    pub coverage: Option<LineCoverage>,
    /// The percentage of lines that must be covered.
    pub threshold: Option<f64>,
}

impl TestRun {
    /// Counts the results.
    pub fn summary(&self) -> TestSummary {
        let mut summary = TestSummary::default();
        for result in &self.results {
            if result.cases.is_empty() {
                summary.add(result.outcome);
            } else {
                summary.cases(&result.cases);
            }
        }
        summary
    }

    /// Whether the coverage is below the threshold, if there is one.
    pub fn below_threshold(&self) -> bool {
        let coverage = self.coverage.as_ref().map_or(0.0, |coverage| coverage.coverage);
        self.threshold.is_some_and(|threshold| coverage < threshold)
    }

    /// Returns 1 if a test failed or the coverage is too low, else 0.
    pub fn exit_code(&self) -> u8 {
        let bad = |result: &TestResult| matches!(result.outcome, TestOutcome::Fail | TestOutcome::Error);
        u8::from(self.below_threshold() || self.results.iter().any(bad))
    }
}

impl TestSummary {
    fn add(&mut self, outcome: TestOutcome) {
        self.total += 1;
        *match outcome {
            TestOutcome::Pass => &mut self.pass,
            TestOutcome::Fail => &mut self.fail,
            TestOutcome::Error => &mut self.error,
            TestOutcome::Skip => &mut self.skip,
        } += 1;
    }

    fn cases(&mut self, cases: &[Case]) {
        for case in cases {
            if case.cases.is_empty() { self.add(case.outcome) } else { self.cases(&case.cases) }
        }
    }
}
