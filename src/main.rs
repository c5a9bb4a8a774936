//! The binary: parses, runs, and turns the outcome into an exit code.

use std::{io::Write, process::ExitCode};

use kaudit::{
    cli::{Command, Mode, config, logging},
    commands::{check, test},
    output::shown_lines,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Policies may recurse deeply while they are parsed and evaluated; the pages are taken only when they are used.
const STACK_BYTES: usize = 64 * 1024 * 1024;

fn main() -> ExitCode {
    let command = match config::load(std::env::args_os()) {
        Ok(command) => command,
        Err(error) => {
            // Help and version go to standard output, everything else to standard error; a closed one is no news.
            let _closed = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match run(command) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // There is nowhere left to say that standard error is closed.
            let _closed = writeln!(std::io::stderr(), "error: {}", shown_lines(&format!("{error:#}")));
            ExitCode::from(2)
        }
    }
}

fn run(command: Command) -> anyhow::Result<u8> {
    match command {
        Command::Completions { shell } => {
            kaudit::cli::completions(shell, &mut std::io::stdout())?;
            Ok(0)
        }
        Command::Policies(options) => kaudit::commands::policies::run(&options),
        Command::Rbac(options) => {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            runtime.block_on(Box::pin(kaudit::commands::rbac::run(&options)))
        }
        Command::Test(options) => {
            logging::init(&options.log, Mode::Files)?;
            test::run(&options)
        }
        Command::Check(options) => {
            logging::init(&options.log, options.mode())?;
            let runtime =
                tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(STACK_BYTES).build()?;
            let outcome = runtime.block_on(Box::pin(check::run(*options)));
            // An evaluation that is under way when a signal came is not waited for.
            runtime.shutdown_background();
            outcome
        }
    }
}
