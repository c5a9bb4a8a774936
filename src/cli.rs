//! The command line. Each option is defined once, with its help, its environment variable and its key in `kaudit.yaml`.
//!
//! clap fills these structs, and only [`config::load`] calls it: it adds the settings of the file, which have the lowest
//! precedence, and rejects invalid combinations, so that every [`CheckArgs`] is valid.

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
pub mod fleet;
mod hints;
pub mod init;
pub mod logging;
pub mod nats;
pub mod plugin;
pub mod policies;
pub mod rbac;
pub mod scope;
mod short_help;
pub mod test;
pub(crate) mod values;

use self::{
    bundles::PushArgs, check::CheckArgs, diff::DiffArgs, explain::ExplainArgs, fleet::FleetArgs, init::InitArgs,
    policies::PoliciesArgs, rbac::RbacArgs, test::TestArgs,
};

/// Audit Kubernetes objects of every kind with Rego policies
#[derive(Debug, Parser)]
#[command(name = "kaudit", version)]
pub struct Cli {
    /// The command to run.
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
    /// Show the results of many clusters, which mirror them into buckets of NATS
    #[command(after_help = fleet::AFTER_HELP)]
    Fleet(Box<FleetArgs>),
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

/// Returns the clap command.
///
/// Help lists no environment variables: one sentence explains their names, and help does not depend on their values.
pub fn command() -> clap::Command {
    Cli::command().mut_subcommands(|command| command.mut_args(|arg| arg.hide_env(true)))
}
