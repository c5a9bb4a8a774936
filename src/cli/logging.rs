//! What kaudit tells about itself: log lines on standard error.
//!
//! Invariant: the clients below kaudit do not log unless asked by name. They put whole response bodies
//! into their warnings, and a body may be a Secret.

use std::io;

use anyhow::Context as _;
use clap::ColorChoice;
use tracing::field::Field;
use tracing_subscriber::{
    EnvFilter, field::MakeExt as _, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

use crate::{
    cli::{Log, LogFormat, Mode},
    output::{safe::Escaping, shown_lines},
};

/// What is kept quiet, whatever the level; a directive that names one of them wins.
const QUIET: &str = "kube=off,kube_client=off,kube_core=off,kube_runtime=off,hyper=off,hyper_util=off,h2=off,\
                     rustls=off,tower=off,tower_http=off,axum=off";

/// Starts logging; to be called once.
pub fn init(log: &Log, mode: Mode) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(directives(log, mode)).context("reading --log-level")?;
    let registry = tracing_subscriber::registry().with(filter);
    match log.format {
        LogFormat::Json => registry
            .with(fmt::layer().json().flatten_event(true).with_writer(|| Escaping::json(io::stderr())))
            .try_init(),
        // Somebody waits for the end and sees no other lines: neither the time nor the module helps.
        LogFormat::Text if mode != Mode::Watch => registry
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

/// Writes the fields of a line for people: names of files and objects are what others wrote.
fn fields() -> impl for<'w> fmt::FormatFields<'w> + Send + Sync + 'static {
    let field = |writer: &mut fmt::format::Writer<'_>, field: &Field, value: &dyn std::fmt::Debug| {
        let text = shown_lines(&format!("{value:?}"));
        if field.name() == "message" { write!(writer, "{text}") } else { write!(writer, "{}={text}", field.name()) }
    };
    fmt::format::debug_fn(field).delimited(" ")
}

/// Returns the whole filter: what is quiet, then the user's or the default of the mode.
fn directives(log: &Log, mode: Mode) -> String {
    let usual = if mode == Mode::Watch { "info" } else { "warn" };
    match log.level.as_deref().unwrap_or(usual).trim() {
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

    fn shown(level: Option<&str>, mode: Mode) -> String {
        let log = Log { level: level.map(str::to_owned), format: LogFormat::Text, color: ColorChoice::Never };
        EnvFilter::try_new(directives(&log, mode)).unwrap().to_string()
    }

    #[test]
    fn clients_stay_quiet_unless_named() {
        assert!(shown(None, Mode::Watch).contains("kube_client=off"));
        let debug = shown(Some("debug"), Mode::Watch);
        assert!(debug.contains("kube_client=off") && debug.ends_with("debug"), "{debug}");
        let named = shown(Some("info,kube_client=trace"), Mode::Once);
        assert!(named.contains("kube_client=trace") && !named.contains("kube_client=off"), "{named}");
    }

    #[test]
    fn short_runs_only_warn() {
        assert!(shown(None, Mode::Watch).ends_with("info"));
        assert!(shown(None, Mode::Once).ends_with("warn"));
        assert!(shown(None, Mode::Files).ends_with("warn"));
        assert_eq!(shown(Some("off"), Mode::Watch), "off");
    }
}
