//! What a relay does as spans of OpenTelemetry, for [`Builder::trace_with`](crate::Builder::trace_with).
//!
//! Needs a layer of `tracing-opentelemetry` in the process; who exports what it gathers is not known here.

use opentelemetry::Context;
use opentelemetry::trace::TraceContextExt;
use posthaste::TraceContext;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::settings::Tracing;

/// Makes the span of a dispatch a child of the one that enqueued the event, in its trace. The context of the
/// span travels on, so that consumers become its children. One that is not sampled leaves no gap: then
/// what is stored travels. Claims and settlements are linked to the traces of their events.
///
/// ```no_run
/// # async fn example(store: impl posthaste::Store) -> Result<(), Box<dyn std::error::Error>> {
/// use posthaste_relay::{Relay, sink};
///
/// let relay = Relay::builder(store)
///     .destination("log", sink::stdout())
///     .trace_with(posthaste_relay::OPENTELEMETRY)
///     .build()?;
/// # Ok(()) }
/// ```
pub const OPENTELEMETRY: Tracing = Tracing { follow, link };

fn link(span: &Span, stored: &TraceContext) {
    if let Some(stored) = stored.as_span() {
        span.add_link(stored);
    }
}

fn follow(span: &Span, stored: Option<&TraceContext>) -> Option<TraceContext> {
    if span.is_disabled() {
        return None;
    }
    let parent = stored.and_then(TraceContext::as_span);
    let parent = parent.map_or_else(Context::new, |parent| {
        Context::new().with_remote_span_context(parent)
    });
    // Without a layer there is no parent to set, and below no context to hand on.
    let _ = span.set_parent(parent);
    let context = span.context();
    let span = context.span();
    let span = span.span_context();
    match span.is_sampled() {
        true => TraceContext::of_span(span),
        false => None,
    }
}
