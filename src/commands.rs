//! The commands of the binary, one file each.

pub mod check;
mod connect;
pub mod diff;
mod document;
pub mod explain;
pub mod init;
pub mod policies;
pub mod push;
pub mod rbac;
mod sources;
pub mod test;

use std::{num::NonZero, thread};

use tokio::runtime::Builder;

use crate::{
    blocking::STACK_BYTES,
    cli::{self, Subcommand, check::Mode, logging},
    output::print,
    record::memory::process_limit,
    rego::memory,
    telemetry::Telemetry,
};

/// Runs a command; returns the exit code. Blocks.
///
/// # Errors
/// When nothing could be done, with what to do; the exit code is 2 then.
pub fn run(subcommand: Subcommand) -> anyhow::Result<u8> {
    if let Some(bytes) = process_limit() {
        memory::limit_process(bytes, thread::available_parallelism().map_or(1, NonZero::get));
    }
    match subcommand {
        Subcommand::Version => {
            print(|out| writeln!(out, "kaudit {}", env!("CARGO_PKG_VERSION")))?;
            Ok(0)
        }
        Subcommand::Completions { shell } => {
            cli::completions(shell, &mut std::io::stdout())?;
            Ok(0)
        }
        Subcommand::Init(options) => init::run(&options),
        Subcommand::Policies(options) => asking(policies::run(&options)),
        Subcommand::Push(options) => asking(push::run(&options)),
        Subcommand::Rbac(options) => asking(rbac::run(&options)),
        Subcommand::Test(options) => {
            logging::init(&options.log, false)?;
            test::run(&options)
        }
        Subcommand::Check(options) => {
            logging::init(&options.log, options.mode() == Mode::Watch)?;
            let telemetry = Telemetry::start();
            let outcome = judging(check::run(*options, &telemetry));
            telemetry.finish();
            outcome
        }
        Subcommand::Explain(options) => {
            logging::init(&options.log, false)?;
            judging(explain::run(*options))
        }
        Subcommand::Diff(options) => {
            logging::init(&options.log, false)?;
            judging(diff::run(*options))
        }
    }
}

/// Runs a command that may ask a cluster.
fn asking(command: impl Future<Output = anyhow::Result<u8>>) -> anyhow::Result<u8> {
    let runtime = Builder::new_multi_thread().enable_all().thread_stack_size(STACK_BYTES).build()?;
    runtime.block_on(Box::pin(command))
}

/// Runs a command that judges.
fn judging(command: impl Future<Output = anyhow::Result<u8>>) -> anyhow::Result<u8> {
    let runtime = Builder::new_multi_thread().enable_all().thread_stack_size(STACK_BYTES).build()?;
    let outcome = runtime.block_on(Box::pin(command));
    // An evaluation that is under way when a signal came is not waited for. Nor are the threads detached, as they would be
    // by `shutdown_background`: glibc may still read one that has just ended (its bug 19951), and the exit code would be
    // that of a crash. They end with the process.
    std::mem::forget(runtime);
    outcome
}
