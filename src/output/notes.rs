//! Notes to the user on standard error, separate from the results and the log.

use std::{
    io::{self, Write as _},
    sync::atomic::{AtomicBool, Ordering},
};

use super::safe::shown_lines;

/// Whether notes are suppressed: the option `--quiet` of this process.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Suppresses all further notes.
pub fn silence() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Writes a line for the user to standard error.
pub fn note(text: &str) {
    if !QUIET.load(Ordering::Relaxed) {
        // If standard error is closed, there is nowhere to report the failure.
        let _closed = writeln!(io::stderr(), "note: {}", shown_lines(text));
    }
}
