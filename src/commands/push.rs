//! `kaudit push`: publishes policies as an artifact of a registry.

use std::io::{self, Write as _};

use crate::{bundle::push, cli::bundles::PushArgs, output::print};

/// Runs `kaudit push`: the reference by digest goes to standard output. Returns the exit code.
///
/// # Errors
/// If the policies cannot be read, or the registry does not accept them.
pub async fn run(options: &PushArgs) -> anyhow::Result<u8> {
    let pushed = push::push(&options.reference, &options.paths, &options.registry.settings()).await?;
    // A closed standard error is ignored: the files are pushed.
    let _closed = writeln!(io::stderr(), "{} files pushed", pushed.files);
    print(|out| writeln!(out, "{}", pushed.reference))?;
    Ok(0)
}
