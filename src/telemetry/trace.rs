//! Spans: what a run is doing, for how long, and what that belongs to.
//!
//! Where traces are off, a span is nothing, and costs an atomic load. Attributes say how many, which kind, which name; never
//! a value of an object, a message, or a URL.

use std::{
    collections::HashMap,
    sync::OnceLock,
    time::{Duration, Instant, SystemTime},
};

use futures::{FutureExt as _, future::Either};
use opentelemetry::{
    Context, KeyValue, Value,
    context::FutureExt as _,
    propagation::TextMapPropagator as _,
    trace::{SpanBuilder, SpanKind, Status, TraceContextExt as _, Tracer as _, TracerProvider as _},
};
use opentelemetry_proto::{
    tonic::collector::trace::v1::ExportTraceServiceRequest,
    transform::{common::tonic::ResourceAttributesWithSchema, trace::tonic::group_spans_by_resource_and_scope},
};
use opentelemetry_sdk::{
    Resource,
    error::{OTelSdkError, OTelSdkResult},
    propagation::TraceContextPropagator,
    trace::{SdkTracer, SdkTracerProvider, SpanData, SpanExporter},
};

use super::http::Sender;

/// What makes spans; not set where traces are off.
static TRACER: OnceLock<SdkTracer> = OnceLock::new();
/// What everything belongs to that has no nearer span, in a run that ends by itself.
static RUN: OnceLock<Span> = OnceLock::new();

/// Begins to send spans.
pub(super) fn start(sender: Sender, resource: &Resource) -> SdkTracerProvider {
    let exporter = Exporter { sender, resource: ResourceAttributesWithSchema::from(resource) };
    let provider = SdkTracerProvider::builder().with_resource(resource.clone()).with_batch_exporter(exporter).build();
    // Only the first is used, and there is no other.
    let _first = TRACER.set(provider.tracer("kaudit"));
    provider
}

/// Sends spans.
#[derive(Debug)]
struct Exporter {
    sender: Sender,
    resource: ResourceAttributesWithSchema,
}

impl SpanExporter for Exporter {
    /// Blocks the thread that it is called on, which is there for nothing else.
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let resource_spans = group_spans_by_resource_and_scope(batch, &self.resource);
        if self.sender.send(&ExportTraceServiceRequest { resource_spans }) {
            Ok(())
        } else {
            Err(OTelSdkError::InternalFailure("not sent".to_owned()))
        }
    }
}

/// A span, or nothing. It ends with [`Span::end`], or when its last clone is dropped.
#[derive(Debug, Clone, Default)]
pub struct Span(Option<Context>);

impl Span {
    /// Begins the span of a run, which belongs to the trace of whoever started kaudit, if `TRACEPARENT` says which.
    pub fn run(name: &'static str) -> Self {
        let caller = || {
            let variables = ["TRACEPARENT", "TRACESTATE"].into_iter();
            let carrier: HashMap<String, String> =
                variables.filter_map(|name| Some((name.to_lowercase(), std::env::var(name).ok()?))).collect();
            TraceContextPropagator::new().extract_with_context(&Context::new(), &carrier)
        };
        Self::build(|| SpanBuilder::from_name(name), caller)
    }

    /// Has everything that has no nearer span belong to this one.
    pub fn embrace(&self) {
        let _first = RUN.set(self.clone());
    }

    /// Returns the span that is under way; nothing if there is none.
    pub fn current() -> Self {
        if TRACER.get().is_some() { Self(Some(current())) } else { Self::default() }
    }

    /// Begins a span in the one that is under way, or of a trace of its own.
    pub fn begin(name: &'static str) -> Self {
        Self::build(|| SpanBuilder::from_name(name), current)
    }

    /// The same for a request to another program.
    pub fn request(name: &'static str) -> Self {
        Self::build(|| SpanBuilder::from_name(name).with_kind(SpanKind::Client), current)
    }

    /// Begins a span in this one; nothing if this is nothing.
    #[must_use]
    pub fn child(&self, name: &'static str) -> Self {
        self.build_child(|| SpanBuilder::from_name(name))
    }

    /// The same for a request to another program.
    #[must_use]
    pub fn child_request(&self, name: &'static str) -> Self {
        self.build_child(|| SpanBuilder::from_name(name).with_kind(SpanKind::Client))
    }

    /// Returns a span that began some time ago, and is of a trace of its own.
    pub fn since(name: &'static str, began: Instant) -> Self {
        let builder = || SpanBuilder::from_name(name).with_start_time(SystemTime::now() - began.elapsed());
        Self::build(builder, Context::new)
    }

    /// Adds a span that is over now and took so long.
    pub fn took(&self, name: &'static str, time: Duration) {
        self.build_child(|| SpanBuilder::from_name(name).with_start_time(SystemTime::now() - time)).end();
    }

    fn build_child(&self, builder: impl FnOnce() -> SpanBuilder) -> Self {
        match &self.0 {
            Some(parent) => Self::build(builder, || parent.clone()),
            None => Self::default(),
        }
    }

    fn build(builder: impl FnOnce() -> SpanBuilder, parent: impl FnOnce() -> Context) -> Self {
        let Some(tracer) = TRACER.get() else { return Self::default() };
        let parent = parent();
        let span = tracer.build_with_context(builder(), &parent);
        Self(Some(parent.with_span(span)))
    }

    /// Sets attributes, which are made only if somebody will see them.
    pub fn set<const N: usize>(&self, attributes: impl FnOnce() -> [(&'static str, Value); N]) {
        if let Some(context) = self.0.as_ref().filter(|context| context.span().is_recording()) {
            context.span().set_attributes(attributes().map(|(key, value)| KeyValue::new(key, value)));
        }
    }

    /// Notes that what the span is about failed, by a word for the kind of failure.
    pub fn fail(&self, kind: &'static str) {
        if let Some(context) = &self.0 {
            context.span().set_attribute(KeyValue::new("error.type", kind));
            context.span().set_status(Status::error(""));
        }
    }

    /// Ends the span; other spans may still begin in it.
    pub fn end(&self) {
        if let Some(context) = &self.0 {
            context.span().end();
        }
    }

    /// Calls something in the span, which goes on after that.
    pub fn enter<T>(&self, call: impl FnOnce() -> T) -> T {
        let _entered = self.0.clone().map(Context::attach);
        call()
    }

    /// Runs something in the span, which goes on after that.
    pub fn within<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        match &self.0 {
            Some(context) => Either::Left(future.with_context(context.clone())),
            None => Either::Right(future),
        }
    }

    /// Runs something that the span is about, and ends the span.
    pub fn cover<F: Future>(self, future: F) -> impl Future<Output = F::Output> + use<F> {
        self.within(future).inspect(move |_| self.end())
    }
}

/// Returns a number as the value of an attribute.
pub fn count(number: usize) -> Value {
    i64::try_from(number).unwrap_or(i64::MAX).into()
}

/// Returns what a new span belongs to.
fn current() -> Context {
    let current = Context::current();
    match RUN.get() {
        Some(Span(Some(run))) if !current.span().span_context().is_valid() => run.clone(),
        _ => current,
    }
}
