//! The options of `kaudit rbac`.

use std::path::PathBuf;

use clap::Args;

use super::{
    cluster::{ClusterArgs, PageArgs, RecordingArgs},
    nats::MirrorArgs,
    policies::ReadingArgs,
    scope::ScopeArgs,
    values::{self, ServiceAccount},
};
use crate::judge::sources::PolicySource;

pub(super) const AFTER_HELP: &str = "\
Roles contain the names of resources. They are read from a cluster only if
kinds are selected: by --include or --exclude or, with --kinds judged, by the
policies.

EXIT CODES:
  0  The roles are on standard output
  2  Usage, configuration, policy or connection error

EXAMPLES:
  The roles for the chart's defaults
    kaudit rbac
  The roles of a team that checks its own namespace
    kaudit rbac -n shop --service-account shop:kaudit
  The roles to read only the kinds that the policies check
    kaudit rbac -p policies --kinds judged | kubectl apply -f -";

/// Options of `kaudit rbac`: those of `kaudit check` that affect rights, and the `ServiceAccount` that gets them.
#[derive(Debug, Args)]
pub struct RbacArgs {
    /// The selection of objects that will be checked.
    #[command(flatten)]
    pub scope: ScopeArgs,

    /// The policies, as for kaudit check; policies outside of the cluster are read only with --kinds judged [default: ./policies if it exists, else builtin]
    #[arg(
        short = 'p',
        long = "policies",
        id = "policies",
        value_name = "PATH|builtin[:PART]|cluster:WHAT|BUNDLE",
        env = "KAUDIT_POLICIES",
        value_parser = values::policy_source(),
        help_heading = "Policies"
    )]
    pub policies: Vec<PolicySource>,

    /// Selection of rules, and access to bundles.
    #[command(flatten)]
    pub reading: ReadingArgs,

    /// Access to the cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Selection of what will be written into the cluster.
    #[command(flatten)]
    pub recording: RecordingArgs,

    /// Access control of the page.
    #[command(flatten)]
    pub ui_auth: PageArgs,

    /// Mirroring of results into the bucket of a fleet.
    #[command(flatten)]
    pub mirror: MirrorArgs,

    /// Give the rights to this ServiceAccount; the Audit object is in its namespace
    #[arg(
        long,
        env = "KAUDIT_SERVICE_ACCOUNT",
        value_name = "NS:NAME",
        default_value = "kaudit:kaudit",
        value_parser = values::service_account,
        help_heading = "Roles"
    )]
    pub service_account: ServiceAccount,

    /// Give the roles and bindings this name
    #[arg(
        long,
        env = "KAUDIT_ROLE_NAME",
        value_name = "NAME",
        default_value = "kaudit",
        value_parser = values::subdomain,
        help_heading = "Roles"
    )]
    pub role_name: String,

    /// Read settings from this YAML file
    #[arg(long, env = "KAUDIT_CONFIG", value_name = "FILE", help_heading = "Running")]
    pub config: Option<PathBuf>,
}
