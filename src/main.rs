//! The binary: parses, runs, and turns the outcome into an exit code.

use std::{io::Write, process::ExitCode};

use kaudit::{cli::config, commands, output::shown_lines};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let subcommand = match config::load(std::env::args_os()) {
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
