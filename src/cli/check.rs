//! The options of `kaudit check`.

use std::{path::PathBuf, time::Duration};

use clap::{
    Args, ValueEnum,
    builder::{BoolishValueParser, NonEmptyStringValueParser},
};
use jiff::Timestamp;

use super::{
    cluster::{ClusterArgs, ContextsArgs, PageArgs, RecordTarget, RecordingArgs},
    exceptions::ExceptionArgs,
    logging::LogArgs,
    nats::{MirrorArgs, NatsArgs},
    policies::{PolicyArgs, ReadingArgs},
    scope::{GroupingArgs, ScopeArgs, SourceArgs, SyncArgs},
    values,
};
use crate::{
    judge::load_options::LoadOptions,
    model::shard::Shard,
    output::{FailOn, Format, Place, RenderOptions, Target, WorkTree},
    record::reports,
};

// Lines are short because clap does not indent what it wraps.
pub(super) const AFTER_HELP: &str = "\
KINDS:
  deployments, Deployment or deploy   A kind by its plural, name or short name
  deployments.apps, pods.core         The same with its group (core has no name)
  *.apps                              All kinds of a group
  *                                   All kinds

FORMATS:
  text                        For people: by namespace and object, worst first
  json                        For programs: one document
  ndjson                      For programs: one line per result
  csv                         For spreadsheets: one row per result
  sarif                       Code scanning (SARIF 2.1.0)
  junit                       Test reports of a pipeline (JUnit XML)
  github                      Annotations of GitHub
  gitlab                      Code quality of GitLab
  markdown                    Job summary, or with --for comment
                              a comment on a pull request
  html                        One page to keep or send, without a network
  openreport                  Reports of openreports.io, for kubectl apply
  Watching writes only text or ndjson

SETTINGS:
  Each option has an environment variable and a key in the --config file:
    --fail-on warn    KAUDIT_FAIL_ON=warn    fail-on: warn
    -n a -n b         KAUDIT_NAMESPACE=a,b   namespace: [a, b]
    --log-level info  KAUDIT_LOG=info        log-level: info
  The command line wins over the environment, the environment over the file
  Without --config, kaudit.yaml is read from the working directory, or else
  from the directory that contains the policies' directory. Such a file may
  not name clusters, keys or ports, nor files to write

EXIT CODES:
  0  Clean
  1  Violations at or above --fail-on
  2  Usage, configuration, policy or connection error: nothing was checked
  3  Incomplete: no violation found, but a kind could not be read,
     a policy failed while running or was refused, the sync timed out,
     or a signal stopped kaudit before it had recorded all results

EXAMPLES:
  Check files and directories, without a cluster
    kaudit check manifests
  Check rendered manifests
    helm template chart | kaudit check -f -
  Check them with the objects that exist in a cluster
    helm template chart | kaudit check -f - --with-cluster
  Watch the cluster and check every change
    kaudit check -p policies
  Check the clusters of two contexts
    kaudit check --once --context staging --context production
  Check two namespaces once, in a pipeline
    kaudit check --once -n shop -n billing -o text -o sarif=audit.sarif
  Check Deployments and StatefulSets only
    kaudit check --once --exclude '*' --include deploy,sts
  Explain a result line by line
    kaudit explain -f manifests Deployment shop/api IMG-01";

/// Options that apply the fixes in results.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Output")]
pub struct FixArgs {
    /// Apply the fixes that results name to the manifests, and report the remaining results
    ///
    /// Keeps comments and layout. Results in the baseline are fixed, too; excused results are not.
    #[arg(long, env = "KAUDIT_FIX", value_parser = BoolishValueParser::new(), conflicts_with_all = ["diff", "write_baseline"])]
    pub fix: bool,

    /// Print the changes that --fix would make as a unified diff, instead of results; exit with 1 if there are any
    #[arg(long, env = "KAUDIT_DIFF", value_parser = BoolishValueParser::new(), conflicts_with_all = ["output", "write_baseline"])]
    pub diff: bool,
}

/// Options of `kaudit check`.
///
/// [`CheckArgs::mode`] returns the mode that they select.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The source of the objects.
    #[command(flatten)]
    pub source: SourceArgs,

    /// Manifests as positional arguments, as other tools accept them.
    #[arg(value_name = "PATH", help = "The same as --filename", help_heading = "Source")]
    pub paths: Vec<PathBuf>,

    /// Read the objects that rules look up from the cluster of the kubeconfig; only the manifests are checked
    ///
    /// A manifest replaces the object of the cluster with its kind, namespace and name. A manifest without a namespace is in
    /// the namespace of --namespace, or else of the kubeconfig's context.
    #[arg(
        long,
        env = "KAUDIT_WITH_CLUSTER",
        value_parser = BoolishValueParser::new(),
        conflicts_with = "files_are_complete",
        help_heading = "Source"
    )]
    pub with_cluster: bool,

    /// The selection of objects.
    #[command(flatten)]
    pub scope: ScopeArgs,

    /// The sources of the policies.
    #[command(flatten)]
    pub policies: PolicyArgs,

    /// Selection of rules, and access to bundles.
    #[command(flatten)]
    pub reading: ReadingArgs,

    /// Check for newer bundles this often; 0 is never. Bundles given by digest are not checked
    #[arg(
        long,
        env = "KAUDIT_POLL",
        value_name = "DURATION",
        default_value = "60s",
        value_parser = values::interval,
        help_heading = "Policies"
    )]
    pub poll: Duration,

    /// Exceptions and baselines.
    #[command(flatten)]
    pub exceptions: ExceptionArgs,

    /// Write results in a format (see FORMATS) to standard output or to a file; repeatable [default: text]
    #[arg(
        short,
        long,
        env = "KAUDIT_OUTPUT",
        value_name = "FORMAT[=FILE]",
        value_delimiter = ',',
        value_parser = values::target,
        help_heading = "Output"
    )]
    pub output: Vec<Target>,

    /// Show only the tables by severity, namespace and rule, in text
    #[arg(long, env = "KAUDIT_SUMMARY", value_parser = BoolishValueParser::new(), help_heading = "Output")]
    pub summary: bool,

    /// Grouping of results.
    #[command(flatten)]
    pub grouping: GroupingArgs,

    /// Where Markdown is shown: it is shortened to fit there
    #[arg(
        long = "for",
        env = "KAUDIT_FOR",
        value_enum,
        value_name = "PLACE",
        default_value_t = Place::Summary,
        help_heading = "Output"
    )]
    pub place: Place,

    /// Names in the reports of some formats.
    #[command(flatten)]
    pub naming: NamingArgs,

    /// Exit with 1 if there is a violation of this severity or result, or a worse one
    ///
    /// By severity, a fail without a severity counts, and a warn without one does not.
    #[arg(
        long,
        env = "KAUDIT_FAIL_ON",
        value_enum,
        ignore_case = true,
        value_name = "RESULT",
        default_value_t = FailOn::Fail,
        help_heading = "Output"
    )]
    pub fail_on: FailOn,

    /// Options that apply the fixes in results.
    #[command(flatten)]
    pub fixing: FixArgs,

    /// Access to the cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Selection of several clusters.
    #[command(flatten)]
    pub contexts: ContextsArgs,

    /// Selection of what is written into the cluster.
    #[command(flatten)]
    pub recording: RecordingArgs,

    /// Limits and layout of what is written.
    #[command(flatten)]
    pub writing: WritingArgs,

    /// Timing of checks.
    #[command(flatten)]
    pub timing: TimingArgs,

    /// Limits of the initial sync.
    #[command(flatten)]
    pub sync: SyncArgs,

    /// Do not evaluate an object again after changes of fields that no policy reads; off is for diagnosis
    #[arg(
        long,
        env = "KAUDIT_UPDATE_FILTER",
        value_enum,
        value_name = "SWITCH",
        default_value_t = Switch::On,
        hide = true,
        help_heading = "Running"
    )]
    pub update_filter: Switch,

    /// Addresses of the HTTP servers.
    #[command(flatten)]
    pub serving: ServingArgs,

    /// Access control and names of the page.
    #[command(flatten)]
    pub page: PageArgs,

    /// Mirroring of results into the bucket of a fleet.
    #[command(flatten)]
    pub mirror: MirrorArgs,

    /// Login and TLS of NATS.
    #[command(flatten)]
    pub nats: NatsArgs,

    /// Read settings from this YAML file
    #[arg(long, env = "KAUDIT_CONFIG", value_name = "FILE", help_heading = "Running")]
    pub config: Option<PathBuf>,

    /// Log level and format.
    #[command(flatten)]
    pub log: LogArgs,
}

/// Names in the reports of some formats.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct NamingArgs {
    /// Write this as the id of the run in SARIF (automationDetails.id): uploads with different ids do not replace each other,
    /// and Azure DevOps requires one
    #[arg(long, env = "KAUDIT_SARIF_ID", value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub sarif_id: Option<String>,

    /// Base name of the reports in openreport; reports with another name are not replaced [default: kaudit-check]
    #[arg(long, env = "KAUDIT_REPORT_NAME", value_name = "NAME", value_parser = values::label)]
    pub report_name: Option<String>,
}

/// Limits and layout of what is written into the cluster; these do not affect the rights that kaudit needs.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub struct WritingArgs {
    /// Take over from a replica that has not renewed the Lease for this long, at least 3s
    #[arg(
        long,
        env = "KAUDIT_LEASE_DURATION",
        value_name = "DURATION",
        default_value = "15s",
        value_parser = values::lease_duration
    )]
    pub lease_duration: Duration,

    /// Write at most this many Events a second for violations found at the start; those for changes go first, up to 100 times
    /// as many in a burst and up to twice as many a second, if the API server keeps up
    #[arg(
        long,
        env = "KAUDIT_EVENTS_PER_SECOND",
        value_name = "N",
        default_value_t = 50,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub events_per_second: u32,

    /// How long the API server keeps Events (its --event-ttl). After a restart, violations first reported within this time that
    /// have no Event get one
    #[arg(
        long,
        env = "KAUDIT_EVENT_TTL",
        value_name = "DURATION",
        default_value = "5m",
        value_parser = values::duration
    )]
    pub event_ttl: Duration,

    /// Send new and resolved violations to the receivers in this YAML file: webhooks, CloudEvents, NATS, Kafka, Slack, Alertmanager, files
    #[expect(clippy::doc_markdown, reason = "help is not Markdown")]
    #[arg(long, env = "KAUDIT_NOTIFY", value_name = "FILE")]
    pub notify: Option<PathBuf>,

    /// Write one report for each namespace, in parts if it has many results, or one for each resource
    #[arg(
        long,
        env = "KAUDIT_REPORT_LAYOUT",
        value_enum,
        value_name = "LAYOUT",
        default_value_t = reports::Layout::Namespace
    )]
    pub report_layout: reports::Layout,
}

/// Timing of the checks of a cluster.
#[derive(Debug, Args)]
#[command(next_help_heading = "Running")]
pub struct TimingArgs {
    /// Check the objects that exist at the start, or only later changes
    #[arg(
        long,
        env = "KAUDIT_INITIAL",
        value_enum,
        value_name = "HOW",
        default_value_t = Initial::Judge
    )]
    pub initial: Initial,

    /// Check objects again at this interval if policies call time.now_ns; 0 is never
    #[expect(clippy::doc_markdown, reason = "help is not Markdown")]
    #[arg(
        long,
        env = "KAUDIT_REJUDGE_EVERY",
        value_name = "DURATION",
        default_value = "1h",
        value_parser = values::interval
    )]
    pub rejudge_every: Duration,
}

/// Addresses of the HTTP servers for health, metrics and results.
#[derive(Debug, Args)]
#[command(next_help_heading = "Running")]
pub struct ServingArgs {
    /// Serve /livez, /readyz, /metrics, /status and /policies at this address, such as 127.0.0.1:8080 or :8080 [default: off]
    #[arg(
        long,
        env = "KAUDIT_LISTEN",
        value_name = "ADDR",
        value_parser = values::listen
    )]
    pub listen: Option<String>,

    /// Export metrics for each of the N namespaces with the most violations, and the sum of the others as _other; 0 is none
    #[arg(long, env = "KAUDIT_METRICS_NAMESPACES", value_name = "N", default_value_t = 50)]
    pub metrics_namespaces: usize,

    /// Serve /status and /policies at this address instead; in a Pod, 127.0.0.1 is reachable only with kubectl port-forward
    #[arg(
        long,
        env = "KAUDIT_LISTEN_STATUS",
        value_name = "ADDR",
        value_parser = values::listen
    )]
    pub listen_status: Option<String>,

    /// Serve a web page at this address, for example 127.0.0.1:8082; in a Pod, reach it with kubectl port-forward
    #[arg(
        long,
        env = "KAUDIT_LISTEN_UI",
        value_name = "ADDR",
        value_parser = values::listen
    )]
    pub listen_ui: Option<String>,
}

/// Whether objects that exist at the start are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Initial {
    /// Check them
    Judge,
    /// Check only what changes later
    Skip,
}

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "the names say all")]
pub enum Switch {
    On,
    Off,
}

/// The ways to run `check`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckMode {
    /// Manifests, once, without a cluster.
    Files,
    /// Several clusters, each once.
    Clusters,
    /// A cluster, once.
    Once,
    /// A cluster, until a signal.
    Watch,
}

impl CheckArgs {
    /// Returns the mode: `-f` takes precedence over `--once`, which it implies.
    pub fn mode(&self) -> CheckMode {
        match (self.source.manifests.filename.is_empty(), self.source.once) {
            (false, _) => CheckMode::Files,
            (true, true) if self.contexts.all_contexts || self.cluster.context.len() > 1 => CheckMode::Clusters,
            (true, true) => CheckMode::Once,
            (true, false) => CheckMode::Watch,
        }
    }

    /// Whether the run ends with a result on standard output that names the kinds which could not be read.
    pub fn ends_with_text(&self) -> bool {
        let is_text = |target: &Target| target.format == Format::Text && target.file.is_none();
        self.mode() != CheckMode::Watch && self.output.iter().any(is_text)
    }

    /// Returns the render options that all targets share.
    pub fn rendering(&self) -> RenderOptions {
        let NamingArgs { sarif_id, report_name } = &self.naming;
        RenderOptions {
            place: self.place,
            tree: WorkTree::here(),
            verbose: self.log.verbose,
            summary: self.summary,
            sarif_id: sarif_id.clone(),
            report_name: report_name.clone(),
            at: Some(Timestamp::now()),
            ..RenderOptions::default()
        }
    }

    /// Whether `target` is written into the cluster: by default only when watching in a Pod, so that a trial from a
    /// workstation writes nothing.
    pub fn records(&self, target: RecordTarget, is_in_pod: bool) -> bool {
        self.recording.wants(target, self.mode() == CheckMode::Watch && is_in_pod)
    }

    /// Returns the shard that is checked.
    pub fn shard(&self) -> Shard {
        self.scope.shard()
    }

    /// Returns how the policies are loaded.
    pub fn load_options(&self) -> LoadOptions {
        let options = self.policies.evaluation.load_options(&self.reading);
        let is_incomplete = self.source.has_only_some_objects() && !self.with_cluster;
        let expands_pods = self.reading.expand.applies(self.source.has_manifests());
        LoadOptions { rules: options.rules.for_incomplete_objects(is_incomplete), expands_pods, ..options }
    }
}
