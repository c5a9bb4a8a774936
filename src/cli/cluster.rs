//! The options for access to a cluster, and for what is written into it.

use std::path::PathBuf;

use clap::{
    Args, ValueEnum,
    builder::{BoolishValueParser, NonEmptyStringValueParser},
};

use super::values;
use crate::{
    cluster::client::Transport,
    record::{events, reports},
};

/// Access to the cluster.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterArgs {
    /// Use this kubeconfig [default: as kubectl: KUBECONFIG, ~/.kube/config, or the Pod's service account]
    #[arg(long, value_name = "FILE", env = "KAUDIT_KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,

    /// Use this context of the kubeconfig; repeatable with check --once, for one result of several clusters [default:
    /// its current context]
    #[arg(
        long,
        value_name = "NAME",
        env = "KAUDIT_CONTEXT",
        value_parser = NonEmptyStringValueParser::new(),
        value_delimiter = ','
    )]
    pub context: Vec<String>,

    /// Impersonate this user
    #[arg(long = "as", id = "as", value_name = "USER", env = "KAUDIT_AS", value_parser = NonEmptyStringValueParser::new())]
    pub user: Option<String>,

    /// Replaces network connections; see [`Transport`].
    #[arg(skip)]
    pub transport: Option<Transport>,
}

/// Selection of several clusters.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Cluster")]
pub struct ContextsArgs {
    /// With --once, check the clusters of all contexts of the kubeconfig, for one result of all
    #[arg(
        long,
        env = "KAUDIT_ALL_CONTEXTS",
        value_parser = BoolishValueParser::new(),
        conflicts_with = "context"
    )]
    pub all_contexts: bool,
}

/// Selection of what is written into the cluster.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Cluster")]
pub struct RecordingArgs {
    /// Write these into the cluster; repeatable [default: events,reports,status when watching in a Pod, else none]
    #[arg(long, env = "KAUDIT_RECORD", value_enum, value_name = "WHAT", value_delimiter = ',')]
    pub record: Vec<RecordTarget>,

    /// Write only these Events, if --record includes events
    #[arg(long, env = "KAUDIT_EVENTS", value_enum, value_name = "WHICH", default_value_t = events::EventFilter::All)]
    pub events: events::EventFilter,

    /// Write reports with this API
    #[arg(
        long,
        env = "KAUDIT_REPORT_API",
        value_enum,
        value_name = "API",
        default_value_t = reports::Choice::Auto
    )]
    pub report_api: reports::Choice,

    /// Write the status to the Audit object of this name, and name the reports after it and its namespace
    #[arg(
        long,
        env = "KAUDIT_AUDIT_NAME",
        value_name = "NAME",
        default_value = "kaudit",
        value_parser = values::subdomain
    )]
    pub audit_name: String,

    /// Record only while this replica holds a Lease, so that one of several replicas records; all of them check
    #[arg(long, env = "KAUDIT_LEADER_ELECT", value_parser = BoolishValueParser::new())]
    pub leader_elect: bool,

    /// The name of the Lease of --leader-elect, in kaudit's own namespace [default: that of the Audit object]
    #[arg(
        long,
        env = "KAUDIT_LEASE_NAME",
        value_name = "NAME",
        value_parser = values::subdomain
    )]
    pub lease_name: Option<String>,
}

/// Access control and names of the page.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Running")]
pub struct PageArgs {
    /// Who may see the page
    #[arg(long, env = "KAUDIT_UI_AUTH", value_enum, value_name = "HOW", default_value_t = UiAuth::None)]
    pub ui_auth: UiAuth,

    /// The name of the cluster: in the header of the page, and of its bucket with --fleet
    #[arg(long, env = "KAUDIT_CLUSTER_NAME", value_name = "NAME", default_value = "", hide_default_value = true)]
    pub cluster_name: String,

    /// The label of Namespaces that names the team, such as example.com/team: the page groups and filters by it
    #[arg(long, env = "KAUDIT_TEAM_LABEL", value_name = "LABEL")]
    pub team_label: Option<String>,
}

/// Access control of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum UiAuth {
    /// Everyone who can connect; allowed on loopback only
    None,
    /// Users with a token of the cluster that may get the Audit object; they see the namespaces whose reports they may list
    Token,
}

impl RecordingArgs {
    /// Returns the prefix of the names of the Leases of all shards.
    pub fn lease_name(&self) -> &str {
        self.lease_name.as_ref().unwrap_or(&self.audit_name)
    }

    /// Whether `target` is written into the cluster; `by_default` applies if `--record` is not given.
    pub fn wants(&self, target: RecordTarget, by_default: bool) -> bool {
        let none = match target {
            RecordTarget::Events => self.events == events::EventFilter::None,
            RecordTarget::Reports => self.report_api == reports::Choice::None,
            RecordTarget::Status | RecordTarget::None => false,
        };
        !none && if self.record.is_empty() { by_default } else { self.record.contains(&target) }
    }
}

/// A kind of record that kaudit writes into the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RecordTarget {
    /// A Kubernetes Event for each violation that is new or resolved
    Events,
    /// Reports of violations, for each namespace
    Reports,
    /// The status of the Audit object and of PolicyExceptions
    #[expect(clippy::doc_markdown, reason = "help is not Markdown")]
    Status,
    /// Nothing
    None,
}
