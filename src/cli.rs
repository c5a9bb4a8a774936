//! The command line: every option once, with its help, its environment variable and its key in `kaudit.yaml`.
//!
//! This is the raw shape that clap fills. [`config::load`] is the only way in: it adds the file below the environment and
//! refuses combinations that make no sense, so whoever holds a [`CheckArgs`] can rely on it.

use std::io;

use clap::{CommandFactory, Parser};

pub mod bundles;
pub mod check;
pub mod cluster;
pub mod config;
pub mod diff;
pub mod exceptions;
pub mod explain;
pub mod filter;
mod hints;
pub mod init;
pub mod logging;
pub mod plugin;
pub mod policies;
pub mod rbac;
pub mod scope;
mod short_help;
pub mod test;
pub(crate) mod values;

use self::{
    bundles::PushArgs, check::CheckArgs, diff::DiffArgs, explain::ExplainArgs, init::InitArgs, policies::PoliciesArgs,
    rbac::RbacArgs, test::TestArgs,
};

/// Audit Kubernetes objects of every kind by Rego policies
#[derive(Debug, Parser)]
#[command(name = "kaudit", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub subcommand: Subcommand,
}

/// The commands of `kaudit`, each with its options.
#[derive(Debug, clap::Subcommand)]
pub enum Subcommand {
    /// Check the objects of a cluster, continuously or once, or those in manifest files
    #[command(after_help = check::AFTER_HELP)]
    Check(Box<CheckArgs>),
    /// Compare the results of two sets of policies for the same objects, or of two audits
    #[command(after_help = diff::AFTER_HELP)]
    Diff(Box<DiffArgs>),
    /// Show how a rule comes to its result for an object, line by line, and what to fix
    #[command(after_help = explain::AFTER_HELP)]
    Explain(Box<ExplainArgs>),
    /// List the policies: their rules and dialect, and the kinds that they check and read
    #[command(after_help = policies::AFTER_HELP)]
    Policies(Box<PoliciesArgs>),
    /// Print the smallest roles that kaudit check needs with the same options
    #[command(after_help = rbac::AFTER_HELP)]
    Rbac(Box<RbacArgs>),
    /// Run the unit tests of policies: test_ rules and Gatekeeper suites
    #[command(after_help = test::AFTER_HELP)]
    Test(Box<TestArgs>),
    /// Publish policies as an artifact of an OCI registry
    #[command(after_help = bundles::AFTER_HELP)]
    Push(PushArgs),
    /// Write a directory of policies to start from, with a test and settings
    #[command(after_help = init::AFTER_HELP)]
    Init(InitArgs),
    /// Print the version
    Version,
    /// Write a completion script for a shell to standard output
    Completions {
        /// The shell to complete for
        shell: clap_complete::Shell,
    },
}

/// Writes the completion script for `shell`.
pub fn completions(shell: clap_complete::Shell, out: &mut dyn io::Write) -> io::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "kaudit", &mut script);
    out.write_all(&script)
}

/// Returns the command as clap sees it.
///
/// The environment is hidden from the lists of options: one sentence states the rule, and help does not depend on
/// what is set.
pub fn command() -> clap::Command {
    Cli::command().mut_subcommands(|command| command.mut_args(|arg| arg.hide_env(true)))
}
