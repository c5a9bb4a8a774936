//! Writes the files of a release besides the binary: man pages, and completion scripts for shells.
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

/// The shells with a completion script in a package, and its path.
const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "completions/bash/kaudit"),
    (Shell::Fish, "completions/fish/kaudit.fish"),
    (Shell::Zsh, "completions/zsh/_kaudit"),
];

/// Writes `man/man1/*.1` and the completion scripts into a folder.
fn write(folder: &Path) -> io::Result<()> {
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

fn main() -> io::Result<()> {
    let folder = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("target/package"), PathBuf::from);
    write(&folder)
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn each_command_has_a_man_page_with_its_options() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).unwrap();
        let page = |name: &str| fs::read_to_string(folder.path().join(format!("man/man1/{name}.1"))).unwrap();
        assert!(page("kaudit").contains("kaudit"));
        for command in cli::command().get_subcommands() {
            let page = page(&format!("kaudit-{}", command.get_name())).replace('\\', "");
            for option in command.get_arguments().filter(|option| !option.is_hide_set()) {
                let Some(long) = option.get_long() else { continue };
                assert!(page.contains(&format!("--{long}")), "{} has no --{long}", command.get_name());
            }
            assert!(command.get_after_help().is_none_or(|_| page.contains("EXAMPLES")), "{}", command.get_name());
        }
    }

    #[test]
    fn completion_scripts_are_up_to_date() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).unwrap();
        for (shell, path) in [("bash", "bash/kaudit"), ("fish", "fish/kaudit.fish"), ("zsh", "zsh/_kaudit")] {
            let script = fs::read(folder.path().join("completions").join(path)).unwrap();
            let mut written = Vec::new();
            cli::completions(Shell::from_str(shell, true).unwrap(), &mut written).unwrap();
            assert!(script == written && script.len() > 1_000, "{shell}");
        }
    }
}
