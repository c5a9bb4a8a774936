//! Notes to the user on standard error, beside the results and the log.

use std::{
    io::{self, Write as _},
    sync::atomic::{AtomicBool, Ordering},
};

use super::safe::shown_lines;

/// Whether notes are left out: the option `--quiet` of this process.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Leaves out all further notes.
pub fn silence() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Writes a line for the user to standard error.
pub fn note(text: &str) {
    if !QUIET.load(Ordering::Relaxed) {
        // Nothing is left to report to where standard error is closed.
        let _closed = writeln!(io::stderr(), "note: {}", shown_lines(text));
    }
}
