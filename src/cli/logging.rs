//! Logging to standard error, and its options.
//!
//! Invariant: the HTTP and Kubernetes clients do not log unless a filter names them. Their warnings contain whole
//! response bodies, and a body may be a Secret.

use std::io;

use anyhow::Context as _;
use clap::{Args, ColorChoice, ValueEnum, builder::BoolishValueParser};
use tracing::field::Field;
use tracing_subscriber::{
    EnvFilter, field::MakeExt as _, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

use super::values;
use crate::output::{safe::Escaping, shown_lines, silence};

/// Log level and format.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Running")]
#[expect(clippy::doc_markdown, reason = "help is not Markdown")]
pub struct LogArgs {
    /// Show more: titles and links of rules, passed tests with what they printed, and more of the log
    #[arg(short, long, env = "KAUDIT_VERBOSE", value_parser = BoolishValueParser::new(), help_heading = "Output")]
    pub verbose: bool,

    /// Write only results: no notes and no warnings
    #[arg(short, long, env = "KAUDIT_QUIET", value_parser = BoolishValueParser::new(), conflicts_with = "verbose", help_heading = "Output")]
    pub quiet: bool,

    /// Log at this level, or by a filter such as info,kaudit::source=debug [default: info when watching, else warn]
    #[arg(
        long = "log-level",
        id = "log-level",
        value_name = "LEVEL",
        env = "KAUDIT_LOG",
        value_parser = values::check_filter
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

    /// Colour the text output; auto depends on the terminal and NO_COLOR
    #[arg(long, value_enum, value_name = "WHEN", env = "KAUDIT_COLOR", default_value_t = ColorChoice::Auto, help_heading = "Output")]
    pub color: ColorChoice,
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people
    Text,
    /// One JSON object per line
    Json,
}

/// Targets that are silent at any level, unless a directive names them.
const QUIET: &str = "async_nats=off,kube=off,kube_client=off,kube_core=off,kube_runtime=off,hyper=off,hyper_util=off,h2=off,\
                     reqwest=off,rskafka=off,rustls=off,tower=off,tower_http=off,axum=off";

/// Starts logging. Must be called only once. `watching` is whether the run does not end by itself.
///
/// # Errors
/// If the filter is invalid, or logging was already started.
pub fn init(log: &LogArgs, watching: bool) -> anyhow::Result<()> {
    if log.quiet {
        silence();
    }
    let filter = EnvFilter::try_new(directives(log, watching)).context("reading --log-level")?;
    let registry = tracing_subscriber::registry().with(filter);
    match log.format {
        LogFormat::Json => registry
            .with(fmt::layer().json().flatten_event(true).with_writer(|| Escaping::json(io::stderr())))
            .try_init(),
        // The user waits for a short run, which logs only a few lines: time and module would not help.
        LogFormat::Text if !watching => registry
            .with(
                fmt::layer()
                    .fmt_fields(fields())
                    .with_writer(io::stderr)
                    .with_ansi(colored(log.color))
                    .with_target(false)
                    .without_time(),
            )
            .try_init(),
        LogFormat::Text => registry
            .with(fmt::layer().fmt_fields(fields()).with_writer(io::stderr).with_ansi(colored(log.color)))
            .try_init(),
    }
    .context("starting the log")
}

/// Formats the fields of a text line with control characters escaped: names of files and objects are untrusted.
fn fields() -> impl for<'w> fmt::FormatFields<'w> + Send + Sync + 'static {
    let field = |writer: &mut fmt::format::Writer<'_>, field: &Field, value: &dyn std::fmt::Debug| {
        let text = shown_lines(&format!("{value:?}"));
        if field.name() == "message" { write!(writer, "{text}") } else { write!(writer, "{}={text}", field.name()) }
    };
    fmt::format::debug_fn(field).delimited(" ")
}

/// Returns the whole filter: the silent targets, then the user's filter or the default.
fn directives(log: &LogArgs, watching: bool) -> String {
    let default = match (log.quiet, log.verbose, watching) {
        (true, ..) => "error",
        (_, true, true) => "debug",
        (_, true, false) | (_, _, true) => "info",
        _ => "warn",
    };
    match log.level.as_deref().unwrap_or(default).trim() {
        "off" => "off".to_owned(),
        level => format!("{QUIET},{level}"),
    }
}

fn colored(color: ColorChoice) -> bool {
    match color {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => anstream::AutoStream::choice(&io::stderr()) != anstream::ColorChoice::Never,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(level: Option<&str>, watching: bool) -> String {
        let (verbose, quiet, format) = (false, false, LogFormat::Text);
        let log = LogArgs { verbose, quiet, level: level.map(str::to_owned), format, color: ColorChoice::Never };
        EnvFilter::try_new(directives(&log, watching)).unwrap().to_string()
    }

    #[test]
    fn clients_stay_quiet_unless_named() {
        assert!(shown(None, true).contains("kube_client=off"));
        let debug = shown(Some("debug"), true);
        assert!(debug.contains("kube_client=off") && debug.ends_with("debug"), "{debug}");
        let named = shown(Some("info,kube_client=trace"), false);
        assert!(named.contains("kube_client=trace") && !named.contains("kube_client=off"), "{named}");
    }

    #[test]
    fn short_runs_only_warn() {
        assert!(shown(None, true).ends_with("info"));
        assert!(shown(None, false).ends_with("warn"));
        assert_eq!(shown(Some("off"), true), "off");
    }
}
