//! The binary: parses, runs, and turns the outcome into an exit code.

use std::{io::Write, process::ExitCode};

use kaudit::{
    cli::{self, Subcommand, check::Mode, config, logging},
    commands::{check, policies, rbac, test},
    output::shown_lines,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Policies may recurse deeply while they are parsed and evaluated; the pages are taken only when they are used.
const STACK_BYTES: usize = 64 * 1024 * 1024;

fn main() -> ExitCode {
    let subcommand = match config::load(std::env::args_os()) {
        Ok(subcommand) => subcommand,
        Err(error) => {
            // Help and version go to standard output, everything else to standard error; a closed one is no error.
            let _closed = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match run(subcommand) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // Nothing is left to report to where standard error is closed.
            let _closed = writeln!(std::io::stderr(), "error: {}", shown_lines(&format!("{error:#}")));
            ExitCode::from(2)
        }
    }
}

fn run(subcommand: Subcommand) -> anyhow::Result<u8> {
    match subcommand {
        Subcommand::Completions { shell } => {
            cli::completions(shell, &mut std::io::stdout())?;
            Ok(0)
        }
        Subcommand::Policies(options) => policies::run(&options),
        Subcommand::Rbac(options) => {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            runtime.block_on(Box::pin(rbac::run(&options)))
        }
        Subcommand::Test(options) => {
            logging::init(&options.log, false)?;
            test::run(&options)
        }
        Subcommand::Check(options) => {
            logging::init(&options.log, options.mode() == Mode::Watch)?;
            let runtime =
                tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(STACK_BYTES).build()?;
            let outcome = runtime.block_on(Box::pin(check::run(*options)));
            // An evaluation that is under way when a signal came is not waited for.
            runtime.shutdown_background();
            outcome
        }
    }
}
