//! `kaudit push`: policies become an artifact of a registry.

use std::io::{self, Write as _};

use crate::{bundle::push, cli::bundles::PushArgs, output::print};

/// Runs `kaudit push`: the reference by digest goes to standard output. Returns the exit code.
///
/// # Errors
/// When the policies cannot be read, or the registry does not take them.
pub async fn run(options: &PushArgs) -> anyhow::Result<u8> {
    let pushed = push::push(&options.reference, &options.paths, &options.registry.settings()).await?;
    // Nothing is left to report to where standard error is closed.
    let _closed = writeln!(io::stderr(), "{} files pushed", pushed.files);
    print(|out| writeln!(out, "{}", pushed.reference))?;
    Ok(0)
}
