//! The options of `kaudit fleet`.

use std::time::Duration;

use clap::{Args, builder::BoolishValueParser};
use jiff::Timestamp;

use super::{logging::LogArgs, nats::NatsArgs, values};
use crate::{
    model::{glob::Glob, label_requirements::LabelRequirements},
    output::{FailOn, Place, RenderOptions, Target},
};

pub(super) const AFTER_HELP: &str = "\
Each kaudit that runs with --fleet keeps the results of its cluster in a
JetStream bucket of NATS. This command reads the buckets of all clusters; it
needs no access to any cluster and keeps no state of its own.

EXIT CODES:
  0  Clean
  1  Violations at or above --fail-on
  2  Usage or connection error, or no cluster: nothing was read
  3  Incomplete: no violation found, but a cluster is incomplete, has had no
     heartbeat for three minutes, or is expected and has no bucket

EXAMPLES:
  List the violations of all clusters
    kaudit fleet --nats nats://nats.example.com:4222
  Serve a page of all clusters
    kaudit fleet --nats nats://nats.example.com:4222 --listen-ui 127.0.0.1:8083
  Fail a pipeline if a cluster in production has a critical violation
    kaudit fleet --nats nats://nats.example.com:4222 -l env=prod --fail-on critical";

/// Options of `kaudit fleet`.
#[derive(Debug, Args)]
pub struct FleetArgs {
    /// Read the buckets of clusters on these NATS servers; repeatable
    #[arg(
        long,
        env = "KAUDIT_NATS",
        value_name = "URL",
        value_delimiter = ',',
        required = true,
        value_parser = values::nats_url(),
        help_heading = "Fleet"
    )]
    pub nats: Vec<String>,

    /// Login and TLS of NATS.
    #[command(flatten)]
    pub login: NatsArgs,

    /// Create the bucket of this cluster if there is none, and nothing else; repeatable. Needs a login that may create streams
    #[arg(long, env = "KAUDIT_CREATE_BUCKET", value_name = "CLUSTER", value_delimiter = ',', help_heading = "Fleet")]
    pub create_bucket: Vec<String>,

    /// Read only these clusters; repeatable
    #[arg(long, env = "KAUDIT_CLUSTER", value_name = "GLOB", value_delimiter = ',', help_heading = "Fleet")]
    pub cluster: Vec<Glob>,

    /// Read only clusters with these labels, as for kubectl get -l, such as env=prod
    #[arg(short = 'l', long, env = "KAUDIT_SELECTOR", value_name = "SELECTOR", help_heading = "Fleet")]
    pub selector: Option<LabelRequirements>,

    /// Read this cluster, too, and call the result incomplete if it has no bucket; repeatable
    #[arg(long, env = "KAUDIT_EXPECT_CLUSTER", value_name = "NAME", value_delimiter = ',', help_heading = "Fleet")]
    pub expect_cluster: Vec<String>,

    /// Wait at most this long until all buckets are read
    #[arg(
        long,
        env = "KAUDIT_SYNC_TIMEOUT",
        value_name = "DURATION",
        default_value = "60s",
        value_parser = values::duration,
        help_heading = "Fleet"
    )]
    pub sync_timeout: Duration,

    /// Write results in a format, as for kaudit check, to standard output or to a file; repeatable [default: text, unless a
    /// page or metrics are served]
    #[arg(
        short,
        long,
        env = "KAUDIT_OUTPUT",
        value_name = "FORMAT[=FILE]",
        value_delimiter = ',',
        value_parser = values::fleet_target,
        conflicts_with_all = ["listen", "listen_ui"],
        help_heading = "Output"
    )]
    pub output: Vec<Target>,

    /// Show only the tables by severity, namespace and rule, in text
    #[arg(long, env = "KAUDIT_SUMMARY", value_parser = BoolishValueParser::new(), help_heading = "Output")]
    pub summary: bool,

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

    /// Exit with 1 if there is a violation of this severity or result, or a worse one
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

    /// Serve a web page of all clusters at this address, which must be on loopback, until a signal comes
    #[arg(long, env = "KAUDIT_LISTEN_UI", value_name = "ADDR", value_parser = values::listen, help_heading = "Running")]
    pub listen_ui: Option<String>,

    /// Serve /livez, /readyz and /metrics at this address until a signal comes
    #[arg(long, env = "KAUDIT_LISTEN", value_name = "ADDR", value_parser = values::listen, help_heading = "Running")]
    pub listen: Option<String>,

    /// Log level and format.
    #[command(flatten)]
    pub log: LogArgs,
}

impl FleetArgs {
    /// Whether it serves until a signal comes, instead of writing one result.
    pub fn serves(&self) -> bool {
        self.listen.is_some() || self.listen_ui.is_some()
    }

    /// Returns the render options that all targets share.
    pub fn rendering(&self) -> RenderOptions {
        RenderOptions {
            place: self.place,
            verbose: self.log.verbose,
            summary: self.summary,
            at: Some(Timestamp::now()),
            ..RenderOptions::default()
        }
    }
}
