//! The trace context of the current OpenTelemetry span, for [`Outbox::trace_with`].
//!
//! [`Outbox::trace_with`]: crate::Outbox::trace_with

use opentelemetry::Context;
use opentelemetry::trace::TraceContextExt;

use crate::message::TraceContext;

impl TraceContext {
    /// The context of the span that is current in OpenTelemetry, if there is a valid one.
    ///
    /// ```
    /// # fn main() -> Result<(), posthaste::TableError> {
    /// use posthaste::{Outbox, TraceContext};
    ///
    /// let outbox = Outbox::new("public.orders_outbox")?.trace_with(TraceContext::opentelemetry);
    /// # Ok(()) }
    /// ```
    pub fn opentelemetry() -> Option<Self> {
        Context::map_current(|context| {
            let span = context.span();
            let span = span.span_context();
            span.is_valid().then(|| Self {
                traceparent: format!(
                    "00-{}-{}-{:02x}",
                    span.trace_id(),
                    span.span_id(),
                    span.trace_flags()
                ),
                tracestate: Some(span.trace_state().header()).filter(|state| !state.is_empty()),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};

    use super::*;

    fn current(state: TraceState) -> opentelemetry::ContextGuard {
        let span = SpanContext::new(
            TraceId::from(0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736),
            SpanId::from(0x00f0_67aa_0ba9_02b7),
            TraceFlags::SAMPLED,
            true,
            state,
        );
        Context::new().with_remote_span_context(span).attach()
    }

    // B12
    #[test]
    fn the_current_span_is_written_as_the_standard_says() {
        let state = TraceState::from_key_value([("vendor", "a;b")]).unwrap();
        let _current = current(state);
        let trace = TraceContext::opentelemetry().unwrap();
        assert_eq!(
            trace.traceparent,
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        );
        assert_eq!(trace.tracestate.as_deref(), Some("vendor=a;b"));
    }

    // B12
    #[test]
    fn without_a_span_there_is_no_trace_context() {
        assert_eq!(TraceContext::opentelemetry(), None);
        let _current = current(TraceState::default());
        assert_eq!(TraceContext::opentelemetry().unwrap().tracestate, None);
    }
}
