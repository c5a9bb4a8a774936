//! Writes what comes beside the binary in a release: man pages, and completion scripts for shells.
//!
//! ```sh
//! cargo run --release --example package -- target/package
//! ```

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap_complete::Shell;
use kaudit::cli;

/// The shells whose users expect a completion script with a package, and where it belongs.
const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "completions/bash/kaudit"),
    (Shell::Fish, "completions/fish/kaudit.fish"),
    (Shell::Zsh, "completions/zsh/_kaudit"),
];

/// Writes `man/man1/*.1` and the completion scripts into a folder.
pub(crate) fn write(folder: &Path) -> io::Result<()> {
    let pages = folder.join("man/man1");
    fs::create_dir_all(&pages)?;
    clap_mangen::generate_to(cli::command(), &pages)?;
    for (shell, path) in COMPLETIONS {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        cli::completions(shell, &mut fs::File::create(path)?)?;
    }
    Ok(())
}

#[allow(dead_code, reason = "a test includes this file for `write`")]
fn main() -> io::Result<()> {
    let folder = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("target/package"), PathBuf::from);
    write(&folder)
}
