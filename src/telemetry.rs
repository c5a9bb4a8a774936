//! Sends traces and metrics to a collector by OTLP, if the environment names an endpoint.
//!
//! The variables are those of the OpenTelemetry specification ([`settings`]). There are spans ([`trace`]) for the phases
//! of a run, changes of objects and writes. The metrics ([`metrics`]) are those of [`Metrics`].
//!
//! Invariant: no part of a run waits for a collector or fails because of it. Each signal is sent by a thread of its own,
//! whose requests have no spans, and the end of a run waits for both at most [`FLUSH`] and [`GRACE`].

mod http;
mod metrics;
mod settings;
mod trace;

use std::{
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

use opentelemetry::KeyValue;
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use tokio::sync::watch;
use tracing::warn;

pub use self::trace::{Span, count};
use self::{http::Sender, settings::Settings};
use crate::metrics::Metrics;

/// How long the end of a run waits until the remaining data is sent.
const FLUSH: Duration = Duration::from_secs(3);
/// How long it then waits until the senders have logged that they could not send it.
const GRACE: Duration = Duration::from_millis(500);

/// The telemetry of this process. [`Telemetry::finish`] sends the remaining data.
#[derive(Debug)]
pub struct Telemetry {
    /// Sent at intervals and at the end, and served as `/metrics`.
    metrics: Arc<Metrics>,
    traces: Option<SdkTracerProvider>,
    sending: Option<Sending>,
    /// The deadline of the end of the run; `None` before the end has begun.
    deadline: watch::Sender<Option<Instant>>,
}

/// The thread that sends metrics.
#[derive(Debug)]
struct Sending {
    /// Dropped to make the thread send the metrics for the last time.
    stop: mpsc::Sender<()>,
    /// Closed when the thread has done so.
    done: Mutex<mpsc::Receiver<()>>,
}

impl Telemetry {
    /// Starts to send the signals that the environment configures. Must be called once, after logging is set up. Problems
    /// with the environment are logged, and do not end the run.
    pub fn start() -> Self {
        let settings = Settings::read(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
        settings.warnings.iter().for_each(|warning| warn!("{warning}"));
        let (deadline, ending) = watch::channel(None);
        let telemetry = Self { metrics: Arc::default(), traces: None, sending: None, deadline };
        if settings.traces.is_none() && settings.metrics.is_none() {
            return telemetry;
        }
        let resource = resource(settings.is_named);
        let sender = |target| match Sender::new(target, ending.clone()) {
            Ok(sender) => Some(sender),
            Err(why) => {
                warn!("{why:#}");
                None
            }
        };
        let traces = settings.traces.and_then(sender).map(|sender| trace::start(sender, &resource));
        let metrics = settings.metrics.and_then(sender).and_then(|sender| {
            let source = metrics::MetricsSource::new(Arc::clone(&telemetry.metrics), &resource);
            send_metrics(source, sender, settings.interval)
        });
        Self { traces, sending: metrics, ..telemetry }
    }

    /// Returns the metrics that are sent.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Stops waiting for the collector, so that [`Self::finish`] takes at most [`GRACE`].
    pub fn give_up(&self) {
        self.deadline.send_replace(Some(Instant::now()));
    }

    /// Sends the remaining data. Blocks for at most [`FLUSH`] and [`GRACE`].
    pub fn finish(self) {
        let Self { metrics: _, traces, sending, deadline } = self;
        let until = deadline.borrow().unwrap_or_else(|| Instant::now() + FLUSH);
        deadline.send_replace(Some(until));
        let done = sending.map(|Sending { stop, done }| {
            drop(stop);
            done.into_inner().unwrap_or_else(PoisonError::into_inner)
        });
        // Senders end by the deadline, and log if they could not send everything.
        let left = || (until + GRACE).saturating_duration_since(Instant::now());
        if let Some(traces) = traces {
            let _result = traces.shutdown_with_timeout(left());
        }
        if let Some(done) = done {
            let _closed = done.recv_timeout(left());
        }
    }
}

/// Starts the thread that sends metrics at intervals.
fn send_metrics(source: metrics::MetricsSource, sender: Sender, interval: Duration) -> Option<Sending> {
    let (stop, stopped) = mpsc::channel::<()>();
    let (end, done) = mpsc::channel::<()>();
    let run = move || {
        let _end = end;
        while stopped.recv_timeout(interval) == Err(mpsc::RecvTimeoutError::Timeout) {
            sender.send(&source.request());
        }
        sender.send(&source.request());
    };
    match thread::Builder::new().name("otlp-metrics".to_owned()).spawn(run) {
        Ok(_) => Some(Sending { stop, done: Mutex::new(done) }),
        Err(error) => {
            warn!("No OTLP metrics are sent: {error}");
            None
        }
    }
}

/// Returns the attributes of this process: those from the environment, and defaults for those it does not set.
fn resource(is_named: bool) -> Resource {
    let detected = Resource::builder().build();
    let has = |key: &'static str| detected.get(&key.into()).is_some();
    let mut own = Vec::new();
    if !is_named {
        own.push(KeyValue::new("service.name", "kaudit"));
    }
    if !has("service.version") {
        own.push(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    }
    // Replicas and shards send the same series.
    if !has("service.instance.id") {
        own.push(KeyValue::new("service.instance.id", instance()));
    }
    Resource::builder().with_attributes(own).build()
}

/// Returns the name of the Pod or the machine.
fn instance() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if host.is_empty() { "kaudit".to_owned() } else { host }
}
