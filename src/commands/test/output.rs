//! Test results for people and programs: one [`TestRun`], three renderers.
//!
//! The same run gives the same bytes, so how long tests took is told only where it was asked for (`-v`).

use anyhow::Context as _;
use clap::ValueEnum;

use super::{Case, TestRun};
use crate::{cli, output};

mod json;
mod junit;
mod text;

/// How test results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people, in the words of opa test and gator verify
    Text,
    /// One document
    Json,
    /// One document in the XML that CI systems read
    Junit,
}

/// Writes the run to standard output. A reader that closes it early has seen enough.
pub(super) fn write(run: &TestRun, options: &cli::Test) -> anyhow::Result<()> {
    let mut bytes = Vec::new();
    match options.output {
        Format::Text => text::render(run, options.verbose, &mut bytes),
        Format::Json => json::render(run, options.verbose, &mut bytes),
        Format::Junit => junit::render(run, options.verbose, &mut bytes),
    }
    .context("writing the results")?;
    if options.output == Format::Text {
        // Messages and prints are what policies wrote.
        bytes = output::shown_lines(&String::from_utf8_lossy(&bytes)).into_bytes();
    }
    output::print(|out| out.write_all(&bytes))
}

/// Visits the cases that count, those without cases of their own, each with its name from the top.
fn leaves<'c>(cases: &'c [Case], names: &mut Vec<&'c str>, visit: &mut dyn FnMut(&[&'c str], &'c Case)) {
    for case in cases {
        names.push(&case.name);
        if case.cases.is_empty() {
            visit(names, case);
        } else {
            leaves(&case.cases, names, visit);
        }
        names.pop();
    }
}
