//! `kaudit init`: creates a directory of policies to start from.
//!
//! In: a directory and the parts of the library to copy. Out: `policies/` with the copy, a policy to begin with and its test,
//! and `kaudit.yaml`. Existing files are never overwritten: every path is checked before the first file is written.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use anyhow::Context as _;

use crate::{
    cli::init::{InitArgs, LibraryPart},
    judge::builtin,
    output::print,
};

const SETTINGS: &str = include_str!("init/kaudit.yaml");
/// A policy of the user's own, and its test.
const OWN: [(&str, &str); 2] = [
    ("policies/own/labels.rego", include_str!("init/labels.rego")),
    ("policies/own/labels_test.rego", include_str!("init/labels_test.rego")),
];

/// Runs `kaudit init`: the written files and the next steps go to standard output. Returns the exit code.
///
/// # Errors
/// If files exist already, before anything is written; or if a file cannot be written.
pub fn run(options: &InitArgs) -> anyhow::Result<u8> {
    let files: BTreeMap<PathBuf, String> =
        files(&options.from).into_iter().map(|(path, text)| (options.directory.join(path), text)).collect();
    let taken: Vec<String> = files.keys().filter(|path| is_taken(path)).map(|path| shown(path)).collect();
    if !taken.is_empty() {
        anyhow::bail!("nothing was written, as these exist: {}\n  help: name another directory", taken.join(", "));
    }
    for (path, text) in &files {
        write(path, text).with_context(|| format!("writing {}", shown(path)))?;
    }
    print(|out| report(&options.directory, files.keys(), out))?;
    Ok(0)
}

/// Returns the files to write, by path below the directory.
fn files(from: &[LibraryPart]) -> BTreeMap<String, String> {
    let parts = from.iter().filter_map(|part| match part {
        LibraryPart::Builtin(name) => Some(builtin::part(name)),
        LibraryPart::None => None,
    });
    let library: BTreeMap<String, String> =
        parts.flatten().map(|file| (format!("policies/{}", file.path), file.text.to_owned())).collect();
    // Without a copy, the builtin library is used beside the user's own policies.
    let policies = if library.is_empty() { "builtin, policies" } else { "policies" };
    let settings = ("kaudit.yaml".to_owned(), SETTINGS.replace("POLICIES", policies));
    library.into_iter().chain(OWN.map(|(path, text)| (path.to_owned(), text.to_owned()))).chain([settings]).collect()
}

/// Whether a file or dangling link is in the way of a new file, or a file is where its directory would be.
fn is_taken(path: &Path) -> bool {
    !matches!(fs::symlink_metadata(path), Err(error) if error.kind() == io::ErrorKind::NotFound)
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    // Does not overwrite a file that was created in the meantime.
    fs::File::create_new(path)?.write_all(text.as_bytes())
}

fn shown(path: &Path) -> String {
    path.strip_prefix(".").unwrap_or(path).display().to_string()
}

fn report<'a>(
    directory: &Path,
    written: impl ExactSizeIterator<Item = &'a PathBuf>,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let count = written.len();
    for path in written {
        writeln!(out, "{}", shown(path))?;
    }
    writeln!(out, "\n{count} files written. Next:")?;
    if directory != Path::new(".") {
        writeln!(out, "  cd {}", directory.display())?;
    }
    let steps = [
        ("kaudit test", "run the unit tests of the policies"),
        ("kaudit check --config kaudit.yaml -f MANIFESTS", "check manifests, without a cluster"),
        ("kaudit check --config kaudit.yaml --once", "check the cluster of your kubeconfig"),
    ];
    for (command, what) in steps {
        writeln!(out, "  {command:<48}{what}")?;
    }
    Ok(())
}
