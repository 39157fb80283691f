//! Exports spans to an OpenTelemetry collector. Nothing that is delivered ever waits for it.

mod collector;

use std::time::Duration;

use opentelemetry::trace::TracerProvider;
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchSpanProcessor, Sampler, SdkTracerProvider, Span, SpanData, SpanProcessor,
};
use tokio::runtime::Handle;
use tracing::{Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;

use self::collector::Collector;
use crate::config::Tracing;
use crate::failure::Failure;

/// How long the end waits for the last spans to leave.
const LAST: Duration = Duration::from_secs(3);

/// Gathers spans, and sends them in batches from a thread of its own.
pub(crate) struct Export(SdkTracerProvider);

impl Export {
    /// Sets it up. Nobody is called before there is a span.
    pub(crate) fn start(tracing: &Tracing, runtime: &Handle) -> Result<Self, Failure> {
        let cannot = |why: String| Failure::usage(format!("spans cannot be exported: {why}"));
        let collector = Collector::new(tracing, runtime.clone()).map_err(cannot)?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(collector)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(&tracing.endpoint)
            .with_timeout(tracing.timeout)
            .build()
            .map_err(|error| cannot(error.to_string()))?;
        let resource = Resource::builder()
            .with_service_name(tracing.service_name.clone())
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let batches = BatchSpanProcessor::builder(exporter).build();
        let mut provider = SdkTracerProvider::builder()
            .with_resource(resource)
            .with_span_processor(Noteworthy(batches));
        if let Some(ratio) = tracing.sample_ratio {
            let here = Sampler::TraceIdRatioBased(ratio);
            provider = provider.with_sampler(Sampler::ParentBased(Box::new(here)));
        }
        Ok(Self(provider.build()))
    }

    /// What listens to our spans, whatever is logged.
    pub(crate) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        let ours = Targets::new().with_target("posthaste", Level::DEBUG);
        tracing_opentelemetry::layer()
            .with_tracer(self.0.tracer("posthaste"))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_filter(ours)
    }

    /// Sends what is left, for a while. Blocks.
    pub(crate) fn end(self) {
        // That the collector is away was told.
        let _ = self.0.shutdown_with_timeout(LAST);
    }
}

/// Leaves out looks that found nothing: an idle relay would fill the collector with them.
#[derive(Debug)]
struct Noteworthy(BatchSpanProcessor);

impl SpanProcessor for Noteworthy {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.0.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        let is_nothing = |it: &KeyValue| {
            it.key.as_str() == "messaging.batch.message_count" && it.value == Value::I64(0)
        };
        if !span.attributes.iter().any(is_nothing) {
            self.0.on_end(span);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.0.set_resource(resource);
    }
}
