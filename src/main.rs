//! The binary: parses the command line, runs the command and returns its exit code.

use std::{ffi::OsString, io::Write, panic, process::ExitCode};

use kaudit::{
    cli::{config, plugin},
    commands,
    output::{ERROR_CODE, shown_lines},
};

fn main() -> ExitCode {
    // Transparent huge pages let the heap grow by 2 MiB where a few KiB are needed; without them it grows more slowly.
    #[cfg(target_os = "linux")]
    let _refused = rustix::thread::disable_transparent_huge_pages(true);
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some(answer) = plugin::completions(&arguments) {
        let _closed = std::io::stdout().write_all(answer.as_bytes());
        return ExitCode::SUCCESS;
    }
    let subcommand = match config::load(arguments) {
        Ok(subcommand) => subcommand,
        Err(error) => {
            // Help and version go to standard output, everything else to standard error. A closed stream is ignored.
            let text = error.render().to_string();
            let shown = shown_lines(&text);
            // The message quotes the arguments, which may be untrusted: escape control characters.
            let _closed = if shown == text { error.print() } else { write!(std::io::stderr(), "{shown}") };
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(ERROR_CODE));
        }
    };
    // The YAML parser panics at some mistakes, which are caught and reported with their document.
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        let is_parser = |place: &panic::Location<'_>| place.file().contains("libyaml-safer");
        if !panic.location().is_some_and(is_parser) {
            report(panic);
        }
    }));
    match commands::run(subcommand) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // If standard error is closed, the error cannot be reported anywhere.
            let _closed = writeln!(std::io::stderr(), "error: {}", shown_lines(&chain(&error)));
            ExitCode::from(ERROR_CODE)
        }
    }
}

/// Joins the messages of an error and its causes, without those that an earlier message contains.
fn chain(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| {
        match (text.is_empty(), text.contains(&cause)) {
            (true, _) => cause,
            (false, true) => text,
            (false, false) => format!("{text}: {cause}"),
        }
    })
}
