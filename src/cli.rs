//! The command line: every option once, with its help, its environment variable and its key in `kaudit.yaml`.
//!
//! This is the raw shape that clap fills. [`crate::cli::config::load`] is the only way in: it adds the file below the
//! environment and refuses combinations that make no sense, so whoever holds a [`Check`] can trust it.

use std::{io, path::PathBuf, time::Duration};

use clap::{
    Args, ColorChoice, CommandFactory, Parser, Subcommand, ValueEnum,
    builder::{BoolishValueParser, NonEmptyStringValueParser},
};

use crate::{
    cli::filter::Filter,
    model::shard::Shard,
    output::{FailOn, Target},
    record::{events, reports},
    rego::limits::Limits,
    source::selection::KindPattern,
};

pub mod config;
pub mod filter;
pub mod logging;
mod values;

pub(crate) use values::nearest;
pub use values::{Recorder, ServiceAccount};

/// Audit Kubernetes objects of every kind by Rego policies
#[derive(Debug, Parser)]
#[command(name = "kaudit", version, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What kaudit can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Judge the objects of a cluster, continuously or once, or those in manifest files
    #[command(after_help = CHECK_AFTER_HELP)]
    Check(Box<Check>),
    /// List the policies: rules, dialect, what they judge, read and depend on, and what is wrong with them
    #[command(after_help = POLICIES_AFTER_HELP)]
    Policies(ListPolicies),
    /// Print the smallest roles that kaudit check needs with the same options, as YAML
    #[command(after_help = RBAC_AFTER_HELP)]
    Rbac(Box<Rbac>),
    /// Run the unit tests of policies: test_ rules and Gatekeeper suites
    #[command(after_help = TEST_AFTER_HELP)]
    Test(Box<Test>),
    /// Write a completion script for a shell to standard output
    Completions {
        /// The shell to complete for
        shell: clap_complete::Shell,
    },
}

// Lines are short because clap does not indent what it wraps.
const CHECK_AFTER_HELP: &str = "\
KINDS:
  deployments, Deployment or deploy   A kind by its plural, name or short name
  deployments.apps, pods.core         The same with its group (core has no name)
  *.apps                              All kinds of a group
  *                                   All kinds

SETTINGS:
  Each option has an environment variable and a key in the --config file:
    --fail-on warn    KAUDIT_FAIL_ON=warn    fail-on: warn
    -n a -n b         KAUDIT_NAMESPACE=a,b   namespace: [a, b]
    --log-level info  KAUDIT_LOG=info        log-level: info
  The command line wins over the environment, the environment over the file

EXIT CODES:
  0  Clean
  1  Violations at or above --fail-on
  2  Usage, configuration, policy or connection error: nothing was judged
  3  Incomplete: no violation found, but a kind could not be read,
     a policy failed while running or was refused, or the sync timed out

EXAMPLES:
  Watch the cluster and judge every change
    kaudit check -p policies
  Judge what is in two namespaces now, for a pipeline
    kaudit check --once -n shop -n billing -o text -o json=audit.json
  Judge Deployments and StatefulSets only
    kaudit check --once --exclude '*' --include deploy,sts
  Judge rendered manifests, without a cluster
    helm template chart | kaudit check -f -";

const TEST_AFTER_HELP: &str = "\
EXIT CODES:
  0  All tests that were run passed
  1  A test failed or could not be run to its end, or the coverage is below
     --threshold
  2  Usage or policy error, or no test at all: nothing was run

EXAMPLES:
  Run all tests of a directory
    kaudit test policies
  Run the tests whose full name (data.main_test.test_latest) matches
    kaudit test policies -r main_test
  Run one case of a Gatekeeper suite
    kaudit test policies -r 'required-labels//missing'
  Write a report for a CI system, and demand that 90 % of all lines are tested
    kaudit test policies -o junit --threshold 90 > report.xml";

/// Options of `kaudit test`.
#[derive(Debug, Args)]
pub struct Test {
    /// Test the policies in this file or directory
    #[arg(value_name = "PATH", env = "KAUDIT_POLICIES", default_value = "policies")]
    pub paths: Vec<PathBuf>,

    /// Run only tests whose full name matches; TEST//CASE also matches single cases of suites
    #[arg(short, long, value_name = "REGEX", env = "KAUDIT_TEST_RUN", value_parser = Filter::parse)]
    pub run: Option<Filter>,

    /// Write results in this format
    #[arg(
        short,
        long,
        value_enum,
        value_name = "FORMAT",
        env = "KAUDIT_TEST_OUTPUT",
        default_value_t = TestFormat::Text
    )]
    pub output: TestFormat,

    /// Tell which lines of the .rego files the tests evaluated
    #[arg(long, env = "KAUDIT_TEST_COVERAGE", value_parser = BoolishValueParser::new())]
    pub coverage: bool,

    /// Fail if less than this percentage of lines was evaluated; implies --coverage
    #[arg(long, value_name = "PERCENT", env = "KAUDIT_TEST_THRESHOLD", value_parser = values::percentage)]
    pub threshold: Option<f64>,

    /// Give up on a test after this time (500ms, 5s, 1m)
    #[arg(
        long,
        value_name = "DURATION",
        env = "KAUDIT_TEST_TIMEOUT",
        default_value = "5s",
        value_parser = values::duration
    )]
    pub timeout: Duration,

    /// Tell also what passed, what all tests printed and how long they took
    #[arg(short, long, env = "KAUDIT_TEST_VERBOSE", value_parser = BoolishValueParser::new())]
    pub verbose: bool,

    /// What to tell on standard error.
    #[command(flatten)]
    pub log: Log,
}

/// How test results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TestFormat {
    /// For people, in the words of opa test and gator verify
    Text,
    /// One document
    Json,
    /// One document in the XML that CI systems read
    Junit,
}

const POLICIES_AFTER_HELP: &str = "\
EXIT CODES:
  0  Everything was loaded
  2  A file was refused, or there is no policy; standard error tells why

EXAMPLES:
  What kaudit check would judge by
    kaudit policies
  The names of all rules and where they stand
    kaudit policies policies more -o json | jq '.policies[].rules[]'";

/// Options of `kaudit check`.
///
/// The three ways to run are told apart by [`Check::mode`].
#[derive(Debug, Args)]
pub struct Check {
    /// Judge everything once and exit, instead of watching
    #[arg(long, env = "KAUDIT_ONCE", value_parser = BoolishValueParser::new(), help_heading = "Source")]
    pub once: bool,

    /// Judge manifests instead of a cluster: a file, a directory (recursively) or - for standard input; repeatable
    #[arg(short, long, value_name = "FILE|DIR|-", env = "KAUDIT_FILENAME", help_heading = "Source")]
    pub filename: Vec<PathBuf>,

    /// Which objects to judge.
    #[command(flatten)]
    pub scope: Scope,

    /// Replace the values of Secrets before anything else sees them, or keep them for the policies
    #[arg(
        long,
        env = "KAUDIT_SECRETS",
        value_enum,
        value_name = "HOW",
        default_value_t = Secrets::Redact,
        help_heading = "Source"
    )]
    pub secrets: Secrets,

    /// Where the policies are.
    #[command(flatten)]
    pub policies: Policies,

    /// Write results as text, json or ndjson to standard output or to a file; repeatable [default: text]
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

    /// Exit with 1 on this result or a worse one
    #[arg(
        long,
        env = "KAUDIT_FAIL_ON",
        value_enum,
        value_name = "RESULT",
        default_value_t = FailOn::Fail,
        help_heading = "Output"
    )]
    pub fail_on: FailOn,

    /// How to reach the cluster.
    #[command(flatten)]
    pub cluster: Cluster,

    /// What to write into the cluster.
    #[command(flatten)]
    pub recording: Recording,

    /// Take over from a replica that has not renewed the Lease for this long, at least 3s
    #[arg(
        long,
        env = "KAUDIT_LEASE_DURATION",
        value_name = "DURATION",
        default_value = "15s",
        value_parser = values::lease_duration,
        help_heading = "Cluster"
    )]
    pub lease_duration: Duration,

    /// Write at most this many Events a second, those about changes first; the others wait
    #[arg(
        long,
        env = "KAUDIT_EVENTS_PER_SECOND",
        value_name = "N",
        default_value_t = 50,
        value_parser = clap::value_parser!(u32).range(1..),
        help_heading = "Cluster"
    )]
    pub events_per_second: u32,

    /// Write a report for each namespace, in parts where it has many results, or one for each resource
    #[arg(
        long,
        env = "KAUDIT_REPORT_LAYOUT",
        value_enum,
        value_name = "LAYOUT",
        default_value_t = reports::Layout::Namespace,
        help_heading = "Cluster"
    )]
    pub report_layout: reports::Layout,

    /// Judge what is there at the start, or take it as the base line and judge later changes only
    #[arg(
        long,
        env = "KAUDIT_INITIAL",
        value_enum,
        value_name = "HOW",
        default_value_t = Initial::Judge,
        help_heading = "Running"
    )]
    pub initial: Initial,

    /// Wait this long for the first list of every kind, then judge without the missing ones (500ms, 60s, 2m, 1h)
    #[arg(
        long,
        env = "KAUDIT_SYNC_TIMEOUT",
        value_name = "DURATION",
        default_value = "60s",
        value_parser = values::duration,
        help_heading = "Running"
    )]
    pub sync_timeout: Duration,

    /// Judge again this often what depends on the time (policies that call time.now_ns); 0 is never
    #[allow(clippy::doc_markdown, reason = "help is not Markdown")]
    #[arg(
        long,
        env = "KAUDIT_REJUDGE_EVERY",
        value_name = "DURATION",
        default_value = "1h",
        value_parser = values::interval,
        help_heading = "Running"
    )]
    pub rejudge_every: Duration,

    /// Leave changes unjudged that no policy can see; off is for diagnosis, verdicts are the same
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

    /// Serve /livez, /readyz, /metrics, /status and /policies at this address, such as 127.0.0.1:8080 or :8080 [default: off]
    #[arg(
        long,
        env = "KAUDIT_LISTEN",
        value_name = "ADDR",
        value_parser = values::listen,
        help_heading = "Running"
    )]
    pub listen: Option<String>,

    /// Serve /status and /policies at this address instead; 127.0.0.1 in a Pod is left to kubectl port-forward
    #[arg(
        long,
        env = "KAUDIT_LISTEN_STATUS",
        value_name = "ADDR",
        value_parser = values::listen,
        help_heading = "Running"
    )]
    pub listen_status: Option<String>,

    /// Read settings from this YAML file
    #[arg(long, env = "KAUDIT_CONFIG", value_name = "FILE", help_heading = "Running")]
    pub config: Option<PathBuf>,

    /// What to tell on standard error.
    #[command(flatten)]
    pub log: Log,
}

const RBAC_AFTER_HELP: &str = "\
A cluster is asked only where kinds are named, by --include or --exclude or,
with --kinds judged, by the policies: roles need the names of their resources.

EXIT CODES:
  0  The roles are on standard output
  2  Usage, configuration, policy or connection error

EXAMPLES:
  What the chart's defaults need
    kaudit rbac
  What a team needs that judges its own namespace
    kaudit rbac -n shop --service-account shop:kaudit
  What reading only the kinds that the policies are about needs
    kaudit rbac -p policies --kinds judged | kubectl apply -f -";

/// Options of `kaudit rbac`: those of `kaudit check` that rights depend on, and whom to give them.
#[derive(Debug, Args)]
pub struct Rbac {
    /// Which objects will be judged.
    #[command(flatten)]
    pub scope: Scope,

    /// The files and directories with the policies; looked at with --kinds judged only
    #[arg(
        short = 'p',
        long = "policies",
        id = "policies",
        value_name = "PATH",
        env = "KAUDIT_POLICIES",
        default_value = "policies",
        help_heading = "Policies"
    )]
    pub policies: Vec<PathBuf>,

    /// How to reach the cluster.
    #[command(flatten)]
    pub cluster: Cluster,

    /// What will be written into the cluster.
    #[command(flatten)]
    pub recording: Recording,

    /// Give the rights to this ServiceAccount; the Audit object is in its namespace
    #[allow(clippy::doc_markdown, reason = "help is not Markdown")]
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

/// What to write into the cluster.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Cluster")]
pub struct Recording {
    /// Write these into the cluster; repeatable [default: events,reports,status when watching, none with --once or -f]
    #[arg(long, env = "KAUDIT_RECORD", value_enum, value_name = "WHAT", value_delimiter = ',')]
    pub record: Vec<Recorder>,

    /// Write these of the Events, if --record has them
    #[arg(long, env = "KAUDIT_EVENTS", value_enum, value_name = "WHICH", default_value_t = events::Which::All)]
    pub events: events::Which,

    /// Write reports by this API
    #[arg(
        long,
        env = "KAUDIT_REPORT_API",
        value_enum,
        value_name = "API",
        default_value_t = reports::Choice::Auto
    )]
    pub report_api: reports::Choice,

    /// Write the status to the Audit object of this name, and name the reports after it
    #[arg(
        long,
        env = "KAUDIT_AUDIT_NAME",
        value_name = "NAME",
        default_value = "kaudit",
        value_parser = values::subdomain
    )]
    pub audit_name: String,

    /// Record only while this replica holds a Lease, so that of several replicas one does; all of them judge
    #[arg(long, env = "KAUDIT_LEADER_ELECT", value_parser = BoolishValueParser::new())]
    pub leader_elect: bool,

    /// The name of that Lease, in kaudit's own namespace [default: that of the Audit object]
    #[arg(
        long,
        env = "KAUDIT_LEASE_NAME",
        value_name = "NAME",
        value_parser = values::subdomain
    )]
    pub lease_name: Option<String>,
}

impl Recording {
    /// Returns what the Leases of all shards are named after.
    pub fn lease_name(&self) -> &str {
        self.lease_name.as_ref().unwrap_or(&self.audit_name)
    }

    /// Whether `recorder` is wanted, where `usually` says whether all are when none is named.
    pub fn wants(&self, recorder: Recorder, usually: bool) -> bool {
        let none = match recorder {
            Recorder::Events => self.events == events::Which::None,
            Recorder::Reports => self.report_api == reports::Choice::None,
            Recorder::Status | Recorder::None => false,
        };
        if none {
            return false;
        }
        if self.record.is_empty() { usually } else { self.record.contains(&recorder) }
    }
}

/// Which objects to judge.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Source")]
pub struct Scope {
    /// Judge only objects in this namespace; repeatable [default: everything]
    #[arg(
        short,
        long,
        value_name = "NS",
        env = "KAUDIT_NAMESPACE",
        value_delimiter = ',',
        value_parser = values::label
    )]
    pub namespace: Vec<String>,

    /// Judge these kinds although they are left out, by default or by --exclude; repeatable
    #[arg(long, value_name = "KIND", env = "KAUDIT_INCLUDE", value_delimiter = ',')]
    pub include: Vec<KindPattern>,

    /// Leave these kinds out; repeatable
    #[arg(long, value_name = "KIND", env = "KAUDIT_EXCLUDE", value_delimiter = ',')]
    pub exclude: Vec<KindPattern>,

    /// Judge only the namespaces of shard I (from 0) of N, and with 0 what is in no namespace; auto/N takes I from the end of HOSTNAME
    #[arg(long, value_name = "I/N", env = "KAUDIT_SHARD", value_parser = values::shard)]
    pub shard: Option<Shard>,

    /// Read all kinds, or of those only the ones that a policy can say anything about or looks up
    #[arg(long, env = "KAUDIT_KINDS", value_enum, value_name = "WHICH", default_value_t = Kinds::All)]
    pub kinds: Kinds,
}

/// Where the policies are.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Policies")]
pub struct Policies {
    /// Load policies from this file or directory; repeatable
    #[arg(
        short = 'p',
        long = "policies",
        id = "policies",
        value_name = "PATH",
        env = "KAUDIT_POLICIES",
        default_value = "policies"
    )]
    pub paths: Vec<PathBuf>,

    /// Judge by the other policies when files are refused; the result is incomplete then, as it is when watching
    #[arg(long, env = "KAUDIT_ALLOW_REFUSED", value_parser = BoolishValueParser::new())]
    pub allow_refused: bool,

    /// Make each builtin that fails a result error, instead of undefined
    #[arg(long, env = "KAUDIT_STRICT", value_parser = BoolishValueParser::new())]
    pub strict: bool,

    /// Give each evaluation of an object this long
    #[arg(
        long,
        env = "KAUDIT_EVALUATION_TIMEOUT",
        value_name = "DURATION",
        default_value = "1s",
        value_parser = values::duration
    )]
    pub evaluation_timeout: Duration,
}

impl Policies {
    /// Returns what evaluation is bounded by.
    pub fn limits(&self) -> Limits {
        let (usual, evaluation) = (Limits::default(), self.evaluation_timeout);
        Limits { evaluation, input: usual.input.max(evaluation * 5), strict: self.strict, ..usual }
    }
}

/// Options of `kaudit policies`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct ListPolicies {
    /// The files and directories to load
    #[arg(id = "policies", value_name = "PATH", env = "KAUDIT_POLICIES", default_value = "policies")]
    pub paths: Vec<PathBuf>,

    /// Write a table for people or a document for programs
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = ListFormat::Text)]
    pub output: ListFormat,

    /// Colour the text output; auto looks at the terminal and NO_COLOR
    #[arg(long, value_enum, value_name = "WHEN", env = "KAUDIT_COLOR", default_value_t = ColorChoice::Auto)]
    #[allow(clippy::doc_markdown, reason = "help is not Markdown")]
    pub color: ColorChoice,
}

/// How a list is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    /// For people
    Text,
    /// One JSON document
    Json,
}

/// How to reach the cluster.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Cluster")]
pub struct Cluster {
    /// Use this kubeconfig [default: as kubectl: KUBECONFIG, ~/.kube/config, or the Pod's service account]
    #[arg(long, value_name = "FILE", env = "KAUDIT_KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,

    /// Use this context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME", env = "KAUDIT_CONTEXT", value_parser = NonEmptyStringValueParser::new())]
    pub context: Option<String>,

    /// Impersonate this user
    #[arg(long = "as", id = "as", value_name = "USER", env = "KAUDIT_AS", value_parser = NonEmptyStringValueParser::new())]
    pub user: Option<String>,
}

/// What to tell on standard error, and in which colours.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Running")]
#[allow(clippy::doc_markdown, reason = "help is not Markdown")]
pub struct Log {
    /// Log at this level, or by a filter such as info,kaudit::source=debug [default: info when watching, else warn]
    #[arg(
        long = "log-level",
        id = "log-level",
        value_name = "LEVEL",
        env = "KAUDIT_LOG",
        value_parser = crate::cli::values::check_filter
    )]
    pub level: Option<String>,

    /// Write the log as lines for people or for programs
    #[arg(
        long = "log-format",
        id = "log-format",
        value_enum,
        value_name = "FORMAT",
        env = "KAUDIT_LOG_FORMAT",
        default_value_t = LogFormat::Text
    )]
    pub format: LogFormat,

    /// Colour the text output; auto looks at the terminal and NO_COLOR
    #[arg(long, value_enum, value_name = "WHEN", env = "KAUDIT_COLOR", default_value_t = ColorChoice::Auto, help_heading = "Output")]
    pub color: ColorChoice,
}

/// Which kinds are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kinds {
    /// Also those that no policy is about: they are known when a policy is added
    All,
    /// The others need neither rights nor memory
    Judged,
}

/// What happens to the values of Secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Secrets {
    /// Only key names remain
    Redact,
    /// Policies see the values
    Full,
}

/// What happens to the objects that are there at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Initial {
    /// Judge them
    Judge,
    /// Judge only what changes later
    Skip,
}

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "the names say all")]
pub enum Switch {
    On,
    Off,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

/// The three ways to run `check`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Manifests, once, without a cluster.
    Files,
    /// A cluster, once.
    Once,
    /// A cluster, until it is told to stop.
    Watch,
}

impl Check {
    /// Returns how to run: `-f` wins over `--once`, which it implies.
    pub fn mode(&self) -> Mode {
        match (self.filename.is_empty(), self.once) {
            (false, _) => Mode::Files,
            (true, true) => Mode::Once,
            (true, false) => Mode::Watch,
        }
    }

    /// Whether `recorder` is wanted, the default of the mode included.
    pub fn records(&self, recorder: Recorder) -> bool {
        self.recording.wants(recorder, self.mode() == Mode::Watch)
    }
}

/// Writes the completion script for `shell`.
pub fn completions(shell: clap_complete::Shell, out: &mut dyn io::Write) -> io::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "kaudit", &mut script);
    out.write_all(&script)
}

/// Returns the command as clap sees it.
///
/// The environment is hidden from the lists of options: one sentence tells the rule, and help does not depend on
/// what is set.
pub(crate) fn command() -> clap::Command {
    Cli::command().mut_subcommands(|command| command.mut_args(|arg| arg.hide_env(true)))
}
