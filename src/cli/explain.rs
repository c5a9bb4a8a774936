//! The options of `kaudit explain`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{
    cluster::ClusterArgs,
    logging::LogArgs,
    policies::{PolicyArgs, ReadingArgs},
    scope::ManifestArgs,
};

pub(super) const AFTER_HELP: &str = "\
WHAT TO EXPLAIN:
  KIND NAME RULE   A rule for an object: Deployment shop/web images/deny_latest_tag
                   (NAME alone for cluster-scoped objects, RULE with or
                   without its policy; a Constraint is KIND/NAME)
  RULE             A rule by itself: its description and its source
  ID               A result by its id in -o json; to find it, the whole
                   cluster is read, not just one object

EXIT CODES:
  0  Explained, whatever the result is
  2  Usage, policy or connection error, or no such object, rule or result

EXAMPLES:
  Why a manifest violates a rule, and what to change
    kaudit explain -f web.yaml Deployment shop/web deny_privileged
  Why an object of the cluster passes
    kaudit explain -p policies deploy shop/web images/deny_latest_tag
  What a rule requires
    kaudit explain IMG-01
  A result of an audit
    kaudit explain -p policies -f manifests 5c1f0a2b9d3e4f60";

/// Options of `kaudit explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Explain this result, this rule, or this rule for this object (see WHAT TO EXPLAIN)
    #[arg(value_name = "ID | RULE | KIND NAME RULE", required = true, num_args = 1..=3)]
    pub what: Vec<String>,

    /// The manifests that contain the object, if it is not in a cluster.
    #[command(flatten)]
    pub manifests: ManifestArgs,

    /// The sources of the policies.
    #[command(flatten)]
    pub policies: PolicyArgs,

    /// Selection of rules, and access to bundles.
    #[command(flatten)]
    pub reading: ReadingArgs,

    /// Write the explanation for people or as a document for programs
    #[arg(
        short,
        long,
        env = "KAUDIT_EXPLAIN_OUTPUT",
        value_enum,
        value_name = "FORMAT",
        default_value_t = ExplainFormat::Text,
        help_heading = "Output"
    )]
    pub output: ExplainFormat,

    /// Access to the cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Read settings from this YAML file
    #[arg(long, env = "KAUDIT_CONFIG", value_name = "FILE", help_heading = "Running")]
    pub config: Option<PathBuf>,

    /// Log level and format.
    #[command(flatten)]
    pub log: LogArgs,
}

/// The format of an explanation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExplainFormat {
    /// For people
    Text,
    /// One JSON document
    Json,
}
