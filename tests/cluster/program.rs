//! Programs that run beside a test.

use std::{
    io::{BufRead as _, BufReader, PipeReader},
    process::{Child, ChildStdin, Command, Stdio},
};

/// A program that serves something. It ends with the test.
pub(crate) struct Program {
    child: Child,
    /// Some end when this does, also if the test is killed.
    _stdin: Option<ChildStdin>,
}

impl Program {
    /// Starts one and waits until it prints a line, to whichever stream, in which `found` finds what it is waited for.
    pub(crate) fn start<T>(command: &mut Command, found: impl Fn(&str) -> Option<T>) -> (Self, T) {
        let (reader, writer) = std::io::pipe().unwrap();
        command.stdin(Stdio::piped()).stdout(writer.try_clone().unwrap()).stderr(writer);
        let mut child = command.spawn().unwrap();
        // Its ends of the pipe, which would keep it open.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let program = Self { _stdin: child.stdin.take(), child };
        let mut lines = BufReader::new(reader);
        let what = found_in(&mut lines, found);
        // So that it can go on writing.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        (program, what)
    }
}

fn found_in<T>(lines: &mut BufReader<PipeReader>, found: impl Fn(&str) -> Option<T>) -> T {
    let mut said = String::new();
    loop {
        let before = said.len();
        assert!(lines.read_line(&mut said).unwrap() > 0, "it ended: {said}");
        if let Some(what) = found(said[before..].trim()) {
            return what;
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
