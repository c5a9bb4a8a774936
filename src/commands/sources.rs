//! Which policies a command uses where none are named.

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
};

use crate::judge::sources::PolicySource;

/// The directory that is used if it exists.
const DIRECTORY: &str = "policies";
/// What is used otherwise, and how to choose.
const BUILTIN: &str = "judging by the builtin library, as there is no ./policies: choose with --policies \
                       (a path, builtin, builtin:PART), or run kaudit init";

/// Returns the policies that are named, or what stands in for them: `./policies`, or else the builtin library, in which
/// case `say` gets a line for the user.
pub(super) fn chosen(named: &[PolicySource], say: impl FnOnce(&str)) -> Vec<PolicySource> {
    if !named.is_empty() {
        return named.to_vec();
    }
    // A link that leads nowhere is a mistake to tell, and no reason to judge by something else.
    if fs::symlink_metadata(DIRECTORY).is_ok() {
        return vec![PolicySource::Path(Path::new(DIRECTORY).to_owned())];
    }
    say(BUILTIN);
    vec![PolicySource::builtin()]
}

/// Writes a line for the user to standard error.
pub(super) fn note(text: &str) {
    // Nothing is left to report to where standard error is closed.
    let _closed = writeln!(io::stderr(), "note: {text}");
}
