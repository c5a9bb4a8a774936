//! Programs that run during a test.

use std::{
    io::{BufRead as _, BufReader, PipeReader},
    process::{ChildStdin, Command, Stdio},
};

use kaudit_test_support::child::ChildGuard;

/// A server process. It is killed at the end of the test.
pub(crate) struct Program {
    _child: ChildGuard,
    /// Some programs end when this is closed, also if the test is killed.
    _stdin: Option<ChildStdin>,
}

impl Program {
    /// Starts a program and waits until it prints a line, to either stream, for which `found` returns a value.
    pub(crate) fn start<T>(command: &mut Command, found: impl Fn(&str) -> Option<T>) -> (Self, T) {
        let (reader, writer) = std::io::pipe().unwrap();
        command.stdin(Stdio::piped()).stdout(writer.try_clone().unwrap()).stderr(writer);
        let mut child = command.spawn().unwrap();
        // Drop the command's pipe ends, which would keep the pipe open.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let program = Self { _stdin: child.stdin.take(), _child: ChildGuard(child) };
        let mut lines = BufReader::new(reader);
        let what = found_in(&mut lines, found);
        // Drain the pipe, so that the program can continue to write.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        (program, what)
    }
}

fn found_in<T>(lines: &mut BufReader<PipeReader>, found: impl Fn(&str) -> Option<T>) -> T {
    let mut output = String::new();
    loop {
        let before = output.len();
        assert!(lines.read_line(&mut output).unwrap() > 0, "it ended: {output}");
        if let Some(what) = found(output[before..].trim()) {
            return what;
        }
    }
}
