//! The binary: parses, runs, and turns the outcome into an exit code.

use std::{ffi::OsString, io::Write, process::ExitCode};

use kaudit::{
    cli::{config, plugin},
    commands,
    output::shown_lines,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some(answer) = plugin::completions(&arguments) {
        let _closed = std::io::stdout().write_all(answer.as_bytes());
        return ExitCode::SUCCESS;
    }
    let subcommand = match config::load(arguments) {
        Ok(subcommand) => subcommand,
        Err(error) => {
            // Help and version go to standard output, everything else to standard error; a closed one is no error.
            let _closed = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match commands::run(subcommand) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // Nothing is left to report to where standard error is closed.
            let _closed = writeln!(std::io::stderr(), "error: {}", shown_lines(&format!("{error:#}")));
            ExitCode::from(2)
        }
    }
}
