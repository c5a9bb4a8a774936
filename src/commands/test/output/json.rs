//! One JSON document. Fields may be added, none removed.

use std::io;

use serde::Serialize;

use crate::{
    cluster::identity::API_VERSION,
    commands::test::{
        coverage::LineCoverage,
        result::{TestResult, TestRun, TestSummary},
    },
    output::safe::write_json_pretty,
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TestReport<'a> {
    api_version: &'a str,
    kind: &'a str,
    summary: TestSummary,
    tests: Vec<TimedResult<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    coverage: Option<&'a LineCoverage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    threshold: Option<f64>,
}

#[derive(Serialize)]
struct TimedResult<'a> {
    #[serde(flatten)]
    result: &'a TestResult,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
}

/// Writes the run; `times` adds how long each test took.
pub(super) fn render(run: &TestRun, times: bool, out: &mut dyn io::Write) -> anyhow::Result<()> {
    let test = |result| TimedResult { result, seconds: times.then_some(result.took.as_secs_f64()) };
    let report = TestReport {
        api_version: API_VERSION,
        kind: "TestResult",
        summary: run.summary(),
        tests: run.results.iter().map(test).collect(),
        coverage: run.coverage.as_ref(),
        threshold: run.threshold,
    };
    write_json_pretty(&mut *out, &report)?;
    writeln!(out)?;
    Ok(())
}
