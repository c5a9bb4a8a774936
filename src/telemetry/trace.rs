//! Spans: the operations of a run, each with its duration and its parent.
//!
//! If traces are off, spans are empty, and each costs an atomic load. Attributes are counts, kinds and names; never values
//! of objects, messages or URLs.

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

/// Creates the spans; not set if traces are off.
static TRACER: OnceLock<SdkTracer> = OnceLock::new();
/// The parent of all spans without another one, in a run that ends by itself.
static RUN: OnceLock<Span> = OnceLock::new();

/// Starts to send spans.
pub(super) fn start(sender: Sender, resource: &Resource) -> SdkTracerProvider {
    let exporter = Exporter { sender, resource: ResourceAttributesWithSchema::from(resource) };
    let provider = SdkTracerProvider::builder().with_resource(resource.clone()).with_batch_exporter(exporter).build();
    // It is set only once.
    let _first = TRACER.set(provider.tracer("kaudit"));
    provider
}

/// Sends ended spans in batches.
#[derive(Debug)]
struct Exporter {
    sender: Sender,
    resource: ResourceAttributesWithSchema,
}

impl SpanExporter for Exporter {
    /// Blocks the thread that it is called on, which does nothing else.
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let resource_spans = group_spans_by_resource_and_scope(batch, &self.resource);
        if self.sender.send(&ExportTraceServiceRequest { resource_spans }) {
            Ok(())
        } else {
            Err(OTelSdkError::InternalFailure("not sent".to_owned()))
        }
    }
}

/// A span, which is empty if traces are off. It ends with [`Span::end`], or when its last clone is dropped.
#[derive(Debug, Clone, Default)]
pub struct Span(Option<Context>);

impl Span {
    /// Starts the span of a run, in the trace of the program that started kaudit, if `TRACEPARENT` names one.
    pub fn run(name: &'static str) -> Self {
        let caller = || {
            let variables = ["TRACEPARENT", "TRACESTATE"].into_iter();
            let carrier: HashMap<String, String> =
                variables.filter_map(|name| Some((name.to_lowercase(), std::env::var(name).ok()?))).collect();
            TraceContextPropagator::new().extract_with_context(&Context::new(), &carrier)
        };
        Self::build(|| SpanBuilder::from_name(name), caller)
    }

    /// Makes this span the parent of all spans without another one.
    pub fn make_default_parent(&self) {
        let _first = RUN.set(self.clone());
    }

    /// Returns the current span; an empty one if traces are off.
    pub fn current() -> Self {
        if TRACER.get().is_some() { Self(Some(current())) } else { Self::default() }
    }

    /// Starts a span in the current one, or in a new trace.
    pub fn begin(name: &'static str) -> Self {
        Self::build(|| SpanBuilder::from_name(name), current)
    }

    /// Starts such a span for a request to another program.
    pub fn request(name: &'static str) -> Self {
        Self::build(|| SpanBuilder::from_name(name).with_kind(SpanKind::Client), current)
    }

    /// Starts a child of this span; an empty one if this is empty.
    #[must_use]
    pub fn child(&self, name: &'static str) -> Self {
        self.build_child(|| SpanBuilder::from_name(name))
    }

    /// Starts such a child for a request to another program.
    #[must_use]
    pub fn child_request(&self, name: &'static str) -> Self {
        self.build_child(|| SpanBuilder::from_name(name).with_kind(SpanKind::Client))
    }

    /// Starts a span in a new trace, with a start time in the past.
    pub fn since(name: &'static str, began: Instant) -> Self {
        let builder = || SpanBuilder::from_name(name).with_start_time(SystemTime::now() - began.elapsed());
        Self::build(builder, Context::new)
    }

    /// Adds a child that ends now and took this long.
    pub fn add_child(&self, name: &'static str, time: Duration) {
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

    /// Sets attributes, which are computed only if the span is recorded.
    pub fn set<const N: usize>(&self, attributes: impl FnOnce() -> [(&'static str, Value); N]) {
        if let Some(context) = self.0.as_ref().filter(|context| context.span().is_recording()) {
            context.span().set_attributes(attributes().map(|(key, value)| KeyValue::new(key, value)));
        }
    }

    /// Marks the span as failed, with a word for the kind of failure.
    pub fn fail(&self, kind: &'static str) {
        if let Some(context) = &self.0 {
            context.span().set_attribute(KeyValue::new("error.type", kind));
            context.span().set_status(Status::error(""));
        }
    }

    /// Ends the span; children may still start.
    pub fn end(&self) {
        if let Some(context) = &self.0 {
            context.span().end();
        }
    }

    /// Calls a function with this span as the current one, and does not end it.
    pub fn enter<T>(&self, call: impl FnOnce() -> T) -> T {
        let _entered = self.0.clone().map(Context::attach);
        call()
    }

    /// Runs a future with this span as the current one, and does not end it.
    pub fn within<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        match &self.0 {
            Some(context) => Either::Left(future.with_context(context.clone())),
            None => Either::Right(future),
        }
    }

    /// Runs a future with this span as the current one, and ends the span when the future ends.
    pub fn instrument<F: Future>(self, future: F) -> impl Future<Output = F::Output> + use<F> {
        self.within(future).inspect(move |_| self.end())
    }
}

/// Returns a count as the value of an attribute.
pub fn count(count: usize) -> Value {
    i64::try_from(count).unwrap_or(i64::MAX).into()
}

/// Returns the parent of a new span.
fn current() -> Context {
    let current = Context::current();
    match RUN.get() {
        Some(Span(Some(run))) if !current.span().span_context().is_valid() => run.clone(),
        _ => current,
    }
}
