//! The commands of the binary, one file each, and the [`explainer`] of traces that two of them use.

pub mod check;
pub mod diff;
pub mod explain;
pub mod explainer;
pub mod fleet;
pub mod init;
pub mod policies;
pub mod push;
pub mod rbac;
pub mod test;

use std::{num::NonZero, thread};

use tokio::runtime::Builder;

use crate::{
    blocking::STACK_BYTES,
    cli::{self, Subcommand, check::CheckMode, logging},
    output::print,
    record::memory::process_limit,
    rego::memory,
    telemetry::Telemetry,
};

/// Runs a command; returns the exit code. Blocks.
///
/// # Errors
/// If the command could not run. The message says what to do; the exit code is 2.
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
        Subcommand::Fleet(options) => {
            logging::init(&options.log, options.serves())?;
            block_on(fleet::run(*options))
        }
        Subcommand::Init(options) => init::run(&options),
        Subcommand::Policies(options) => block_on(policies::run(&options)),
        Subcommand::Push(options) => block_on(push::run(&options)),
        Subcommand::Rbac(options) => block_on(rbac::run(&options)),
        Subcommand::Test(options) => {
            logging::init(&options.log, false)?;
            test::run(&options)
        }
        Subcommand::Check(options) => {
            logging::init(&options.log, options.mode() == CheckMode::Watch)?;
            let telemetry = Telemetry::start();
            let outcome = block_on_detached(check::run(*options, &telemetry));
            telemetry.finish();
            outcome
        }
        Subcommand::Explain(options) => {
            logging::init(&options.log, false)?;
            block_on_detached(explain::run(*options))
        }
        Subcommand::Diff(options) => {
            logging::init(&options.log, false)?;
            block_on_detached(diff::run(*options))
        }
    }
}

/// Runs a command that may read from a cluster or a registry, but does not evaluate.
fn block_on(command: impl Future<Output = anyhow::Result<u8>>) -> anyhow::Result<u8> {
    let runtime = Builder::new_multi_thread().enable_all().thread_stack_size(STACK_BYTES).build()?;
    runtime.block_on(Box::pin(command))
}

/// Runs a command that evaluates policies, without waiting for threads that are still evaluating.
fn block_on_detached(command: impl Future<Output = anyhow::Result<u8>>) -> anyhow::Result<u8> {
    let runtime = Builder::new_multi_thread().enable_all().thread_stack_size(STACK_BYTES).build()?;
    let outcome = runtime.block_on(Box::pin(command));
    // Do not wait for an evaluation that runs when a signal comes. `shutdown_background` would detach the threads, and
    // glibc may read a detached thread that has just ended (its bug 19951): the exit code would be that of a crash.
    // Leaked, the threads end with the process.
    std::mem::forget(runtime);
    outcome
}
