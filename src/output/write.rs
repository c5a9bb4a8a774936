//! Writes whole results to standard output and files.

use std::{
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use clap::ColorChoice;

use super::{
    format::{Format, RenderOptions, Target},
    render::render,
    safe::Guarded,
};
use crate::audit::result::AuditResult;

/// Width of a terminal that does not report its width.
const DEFAULT_WIDTH: usize = 100;

impl RenderOptions {
    /// Returns the options for standard output; text is wrapped only on a terminal.
    pub fn for_stdout(color: ColorChoice) -> Self {
        use io::IsTerminal as _;

        let stdout = io::stdout();
        let color = match color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            // Considers the terminal, NO_COLOR, CLICOLOR, CLICOLOR_FORCE and TERM.
            ColorChoice::Auto => anstream::AutoStream::choice(&stdout) != anstream::ColorChoice::Never,
        };
        Self { color, width: if stdout.is_terminal() { terminal_width() } else { usize::MAX }, ..Self::default() }
    }
}

fn terminal_width() -> usize {
    terminal_size::terminal_size().map_or(DEFAULT_WIDTH, |(width, _)| usize::from(width.0))
}

/// Writes `result` to every target, files first, so that they are complete when standard output ends. Colour and width
/// depend on the target.
pub fn write_all(
    targets: &[Target],
    result: &AuditResult,
    color: ColorChoice,
    common: &RenderOptions,
) -> anyhow::Result<()> {
    write_targets(targets, color, |format, &RenderOptions { color, width, .. }, out| {
        render(format, result, &RenderOptions { color, width, ..common.clone() }, out)
    })
}

/// Writes the output of `render` to every target, in the same order.
pub(super) fn write_targets(
    targets: &[Target],
    color: ColorChoice,
    render: impl Fn(Format, &RenderOptions, &mut dyn io::Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    for target in targets {
        if let Some(path) = &target.file {
            replace_file(path, |out| render(target.format, &RenderOptions::default(), out))
                .with_context(|| format!("writing {} to {}", target.format.name(), path.display()))?;
        }
    }
    for target in targets.iter().filter(|target| target.file.is_none()) {
        let options = RenderOptions::for_stdout(color);
        print_formatted(|out| render(target.format, &options, out))?;
    }
    Ok(())
}

/// Writes text for people, or JSON, to standard output, with commands to CI runners disarmed.
///
/// # Errors
/// If standard output cannot be written.
pub fn print(fill: impl FnOnce(&mut dyn io::Write) -> io::Result<()>) -> anyhow::Result<()> {
    print_formatted(|out| fill(&mut Guarded::new(out)))
}

/// Writes to standard output.
///
/// A reader that closes it early is not an error.
fn print_formatted(fill: impl FnOnce(&mut dyn io::Write) -> io::Result<()>) -> anyhow::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    match fill(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            // The rest of the buffer must not be written again when the buffer is dropped.
            drop(out.into_parts());
            Ok(())
        }
        written => written.context("writing to standard output"),
    }
}

/// Writes a temporary file next to `path` and renames it, so that readers never see a partial result, and the old file
/// remains after a failure. Targets that cannot be replaced (devices, pipes, mounted files) are written directly.
pub(crate) fn replace_file(path: &Path, fill: impl Fn(&mut dyn io::Write) -> io::Result<()>) -> io::Result<()> {
    let known = fs::metadata(path);
    if known.as_ref().is_ok_and(|known| !known.is_file()) {
        return write_to(fs::OpenOptions::new().write(true).open(path)?, &fill);
    }
    // A symbolic link stays: its target is replaced or created.
    let Ok(target) = fs::canonicalize(path).or_else(|_| absent(path)) else {
        return write_to(fs::File::create(path)?, &fill);
    };
    let part = part_path(&target);
    let Ok(created) = fs::File::create(&part) else {
        return write_to(fs::File::create(path)?, &fill);
    };
    if let Ok(known) = known {
        created.set_permissions(known.permissions())?;
    }
    if let Err(error) = write_to(created, &fill) {
        drop(fs::remove_file(&part));
        return Err(error);
    }
    if fs::rename(&part, &target).is_err() {
        drop(fs::remove_file(&part));
        return write_to(fs::File::create(path)?, &fill);
    }
    Ok(())
}

/// Returns the path of a file that does not exist yet; an error for a dangling link, which exists itself.
fn absent(path: &Path) -> io::Result<PathBuf> {
    match fs::symlink_metadata(path) {
        Ok(_) => Err(io::ErrorKind::NotFound.into()),
        Err(_) => Ok(path.to_owned()),
    }
}

fn part_path(target: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(format!(".{}.part", std::process::id()));
    target.with_file_name(name)
}

fn write_to(opened: fs::File, fill: &impl Fn(&mut dyn io::Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = io::BufWriter::new(opened);
    fill(&mut out)?;
    out.flush()
}
