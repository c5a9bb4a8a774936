//! Test results for people and programs: one [`TestRun`], three renderers.
//!
//! The same run gives the same bytes, so durations are shown only with `-v`.

use anyhow::Context as _;

use super::result::TestRun;
use crate::{
    cli::test::{TestArgs, TestFormat},
    output,
};

mod json;
mod junit;
mod text;

/// Writes the run to standard output. A reader may close it early, without an error.
pub(super) fn write(run: &TestRun, options: &TestArgs) -> anyhow::Result<()> {
    let mut bytes = Vec::new();
    match options.output {
        TestFormat::Text => text::render(run, options.log.verbose, &mut bytes),
        TestFormat::Json => json::render(run, options.log.verbose, &mut bytes),
        TestFormat::Junit => junit::render(run, options.log.verbose, &mut bytes),
    }
    .context("writing the results")?;
    if options.output == TestFormat::Text {
        // Messages and prints come from policies, and may contain control characters.
        bytes = output::shown_lines(&String::from_utf8_lossy(&bytes)).into_bytes();
    }
    output::print(|out| out.write_all(&bytes))
}
