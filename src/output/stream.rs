//! The output of a watch: appends lines to its targets, and recovers from partial writes.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    os::{fd::AsFd as _, unix::fs::FileExt as _},
    path::Path,
};

use anyhow::Context as _;
use clap::ColorChoice;

use super::{
    format::{RenderOptions, Target},
    render::stream_line,
};
use crate::audit::{ledger::Lifecycle, result::Entry};

/// The targets of a watch: each violation is written when it is new and when it is resolved.
pub struct Streams {
    sinks: Vec<StreamSink>,
}

struct StreamSink {
    target: Target,
    options: RenderOptions,
    /// Unbuffered: a failed write would leave its rest in a buffer, to be written later.
    out: File,
    /// Whether the last write ended within a line.
    torn: bool,
}

impl Streams {
    /// Opens all targets; appends to files.
    pub fn open(targets: &[Target], color: ColorChoice) -> anyhow::Result<Self> {
        Ok(Self { sinks: targets.iter().map(|target| StreamSink::open(target, color)).collect::<Result<_, _>>()? })
    }

    /// Writes one line to every target.
    ///
    /// Returns whether any target is left: a closed pipe is dropped without an error.
    ///
    /// # Errors
    /// If a target cannot be written. The line is still written to the others.
    pub fn line(&mut self, event: Lifecycle, entry: &Entry, time: jiff::Timestamp) -> anyhow::Result<bool> {
        let mut failure = None;
        let mut line = Vec::new();
        self.sinks.retain_mut(|sink| {
            line.clear();
            let written = stream_line(sink.target.format, event, entry, time, &sink.options, &mut line)
                .and_then(|()| sink.write(&line));
            match written {
                Ok(()) => true,
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => false,
                Err(error) => {
                    let place = sink.target.file.as_ref().map_or("standard output".into(), |f| f.display().to_string());
                    failure = Some(anyhow::Error::new(error).context(format!("writing to {place}")));
                    true
                }
            }
        });
        failure.map_or(Ok(!self.sinks.is_empty()), Err)
    }
}

impl StreamSink {
    fn open(target: &Target, color: ColorChoice) -> anyhow::Result<Self> {
        let (out, options, torn) = match &target.file {
            None => {
                let stdout = io::stdout().as_fd().try_clone_to_owned().context("opening standard output")?;
                (stdout.into(), RenderOptions::for_stdout(color), false)
            }
            Some(path) => {
                let opened = OpenOptions::new().create(true).append(true).open(path);
                let file = opened.with_context(|| format!("opening {}", path.display()))?;
                // A previous writer may have been killed in the middle of a line.
                (file, RenderOptions::default(), ends_within_a_line(path))
            }
        };
        Ok(Self { target: target.clone(), options, out, torn })
    }

    /// Writes one whole line. A partly written line is removed again, or else terminated before the next one.
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.torn {
            self.out.write_all(b"\n")?;
            self.torn = false;
        }
        let mut rest = line;
        while !rest.is_empty() {
            match self.out.write(rest) {
                Ok(written) if written > 0 => rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                failed => {
                    let written = line.len() - rest.len();
                    self.torn = written > 0 && !self.take_back(written);
                    return Err(failed.err().unwrap_or(io::ErrorKind::WriteZero.into()));
                }
            }
        }
        Ok(())
    }

    /// Removes the last bytes of a file; returns false if that is not possible. Standard output is not truncated: other
    /// processes that share it would continue to write beyond its end.
    fn take_back(&self, bytes: usize) -> bool {
        let shorten = || {
            let length = self.out.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
            self.out.set_len(length.checked_sub(bytes as u64)?).ok()
        };
        self.target.file.is_some() && shorten().is_some()
    }
}

/// Whether there is a file that does not end with a line break.
fn ends_within_a_line(path: &Path) -> bool {
    let last_byte = || {
        // A pipe must not be opened for reading: kaudit would no longer notice that its reader has closed it.
        let length = path.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
        let mut byte = [0];
        File::open(path).ok()?.read_exact_at(&mut byte, length.checked_sub(1)?).ok()?;
        Some(byte[0])
    };
    last_byte().is_some_and(|byte| byte != b'\n')
}

#[cfg(test)]
mod tests {
    use std::{fs, process::Command, sync::Arc};

    use super::*;
    use crate::{
        model::{object::ObjectRef, verdict::Finding},
        output::Format,
    };

    /// The environment variable with the path that [`within_a_limit`] writes to.
    const FILE: &str = "KAUDIT_TEST_STREAM";

    fn entry(message: &str) -> Entry {
        let (api_version, kind) = ("v1".into(), "Pod".into());
        let resource =
            ObjectRef { cluster: None, api_version, kind, namespace: None, name: "a".into(), uid: "u".into() };
        Entry::new(&Finding::sample(message), &Arc::new(resource), None, None)
    }

    fn open(path: &Path) -> Streams {
        let target = Target { format: Format::Ndjson, file: Some(path.to_owned()) };
        Streams::open(&[target], ColorChoice::Never).unwrap()
    }

    fn write(streams: &mut Streams, message: &str) -> anyhow::Result<bool> {
        streams.line(Lifecycle::Appeared, &entry(message), jiff::Timestamp::UNIX_EPOCH)
    }

    /// Returns the messages in a file, and asserts that all lines are complete.
    fn messages(path: &Path) -> Vec<String> {
        let text = fs::read_to_string(path).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'), "{text:?}");
        let message = |line: &str| {
            let line: serde_json::Value =
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {text:?}"));
            line["message"].as_str().unwrap().to_owned()
        };
        text.lines().map(message).collect()
    }

    #[test]
    fn a_line_torn_by_another_process_is_terminated() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "{\"message\":\"to").unwrap();
        let mut streams = open(file.path());
        assert!(write(&mut streams, "one").unwrap() && write(&mut streams, "two").unwrap());
        let text = fs::read_to_string(file.path()).unwrap();
        let (torn, whole) = text.split_once('\n').unwrap();
        assert_eq!(torn, "{\"message\":\"to");
        fs::write(file.path(), whole).unwrap();
        assert_eq!(messages(file.path()), ["one", "two"]);
    }

    #[test]
    fn a_file_that_may_not_grow_keeps_whole_lines() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let this = std::env::current_exe().unwrap();
        let run = Command::new("sh")
            .args([
                "-c",
                "trap '' XFSZ; ulimit -f 4; exec \"$0\" --ignored --exact output::stream::tests::within_a_limit",
            ])
            .arg(this)
            .env(FILE, file.path())
            .output()
            .unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
        assert_eq!(messages(file.path()), ["again"]);
    }

    #[test]
    #[ignore = "is run by another test, in a process that may not write large files"]
    fn within_a_limit() {
        let path = std::path::PathBuf::from(std::env::var_os(FILE).unwrap());
        let mut streams = open(&path);
        let written = (0..1_000).take_while(|number| write(&mut streams, &format!("{number}")).is_ok()).count();
        assert!((2..1_000).contains(&written), "{written}");
        assert!(write(&mut streams, "too much").is_err());
        assert_eq!(messages(&path), (0..written).map(|number| number.to_string()).collect::<Vec<_>>());
        // Free some space.
        File::create(&path).unwrap();
        assert!(write(&mut streams, "again").unwrap());
    }
}
