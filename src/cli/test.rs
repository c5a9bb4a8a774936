//! The options of `kaudit test`.

use std::time::Duration;

use clap::{Args, ValueEnum, builder::BoolishValueParser};

use super::{filter::TestFilter, logging::LogArgs, policies::GatekeeperArgs, values};
use crate::judge::sources::PolicySource;

pub(super) const AFTER_HELP: &str = "\
EXIT CODES:
  0  All tests that were run passed
  1  A test failed or could not be run to its end, or the coverage is below
     --threshold
  2  Usage or policy error, or no test at all: nothing was run

EXAMPLES:
  Run all tests of a directory
    kaudit test policies
  Run the tests whose full name (data.main_test.test_latest) matches
    kaudit test policies -r main_test
  Run one case of a Gatekeeper suite
    kaudit test policies -r 'required-labels//missing'
  Write a report for a CI system, and fail if less than 90 % of all lines are
  evaluated
    kaudit test policies -o junit --threshold 90 > report.xml";

/// Options of `kaudit test`.
#[derive(Debug, Args)]
pub struct TestArgs {
    /// Test the policies in this file or directory; builtin[:PART] adds kaudit's own library for tests that use it
    #[arg(
        id = "policies",
        value_name = "PATH",
        env = "KAUDIT_POLICIES",
        default_value = "policies",
        value_parser = values::policy_source()
    )]
    pub sources: Vec<PolicySource>,

    /// Run only tests whose full name matches; TEST//CASE also matches single cases of suites
    #[arg(short, long, value_name = "REGEX", env = "KAUDIT_TEST_RUN", value_parser = TestFilter::parse)]
    pub run: Option<TestFilter>,

    /// The options of Gatekeeper templates.
    #[command(flatten)]
    pub gatekeeper: GatekeeperArgs,

    /// Write results in this format
    #[arg(
        short,
        long,
        value_enum,
        value_name = "FORMAT",
        env = "KAUDIT_TEST_OUTPUT",
        default_value_t = TestFormat::Text
    )]
    pub output: TestFormat,

    /// Report which lines of the .rego files the tests evaluated
    #[arg(long, env = "KAUDIT_TEST_COVERAGE", value_parser = BoolishValueParser::new())]
    pub coverage: bool,

    /// Fail if less than this percentage of lines was evaluated; implies --coverage
    #[arg(long, value_name = "PERCENT", env = "KAUDIT_TEST_THRESHOLD", value_parser = values::percentage)]
    pub threshold: Option<f64>,

    /// Give up on a test after this time (500ms, 5s, 1m)
    #[arg(
        long,
        value_name = "DURATION",
        env = "KAUDIT_TEST_TIMEOUT",
        default_value = "5s",
        value_parser = values::duration
    )]
    pub timeout: Duration,

    /// Log level and format.
    #[command(flatten)]
    pub log: LogArgs,
}

/// The format of test results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TestFormat {
    /// For people, in the words of opa test and gator verify
    Text,
    /// One document
    Json,
    /// One document in the XML that CI systems read
    Junit,
}
