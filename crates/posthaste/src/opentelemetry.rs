//! Trace contexts as OpenTelemetry has them: that of the current span, for [`Outbox::trace_with`],
//! and the one that is stored with an event.
//!
//! [`Outbox::trace_with`]: crate::Outbox::trace_with

use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};

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
        Context::map_current(|context| Self::of_span(context.span().span_context()))
    }

    /// The context of this span, if it is valid.
    pub fn of_span(span: &SpanContext) -> Option<Self> {
        span.is_valid().then(|| Self {
            traceparent: format!(
                "00-{}-{}-{:02x}",
                span.trace_id(),
                span.span_id(),
                span.trace_flags()
            ),
            tracestate: Some(span.trace_state().header()).filter(|state| !state.is_empty()),
        })
    }

    /// The span that this names, as a parent from elsewhere. `None`: it names no valid one.
    pub fn as_span(&self) -> Option<SpanContext> {
        let mut parts = self.traceparent.split('-');
        let (version, trace, span, flags) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        // Versions to come may add fields, the first has none.
        let is_known = version.len() == 2 && version != "ff";
        if !is_known || version == "00" && parts.next().is_some() {
            return None;
        }
        let is_hex = [trace, span, flags]
            .iter()
            .all(|part| part.bytes().all(|b| b.is_ascii_hexdigit()));
        if !is_hex || (trace.len(), span.len(), flags.len()) != (32, 16, 2) {
            return None;
        }
        let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?) & TraceFlags::SAMPLED;
        // A state that cannot be read costs the trace nothing but that state.
        let state = self.tracestate.as_deref().unwrap_or_default();
        let context = SpanContext::new(
            TraceId::from_hex(trace).ok()?,
            SpanId::from_hex(span).ok()?,
            flags,
            true,
            state.parse::<TraceState>().unwrap_or_default(),
        );
        context.is_valid().then_some(context)
    }
}

#[cfg(test)]
mod tests {
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

    // B12
    #[test]
    fn what_was_stored_names_the_span_it_came_from() {
        let state = TraceState::from_key_value([("vendor", "a;b")]).unwrap();
        let _current = current(state);
        let stored = TraceContext::opentelemetry().unwrap();
        let span = stored.as_span().unwrap();
        assert!(span.is_remote() && span.is_sampled());
        assert_eq!(TraceContext::of_span(&span), Some(stored));
    }

    #[test]
    fn what_names_no_span_is_no_parent() {
        let with = |traceparent: &str| TraceContext {
            traceparent: traceparent.to_owned(),
            tracestate: None,
        };
        let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        for broken in [
            String::new(),
            format!("00-{trace}-{span}"),
            format!("ff-{trace}-{span}-01"),
            format!("00-{trace}-{span}-01-more"),
            format!("00-{trace}-{span}-zz"),
            format!("00-{}-{span}-01", "0".repeat(32)),
            format!("00-{trace}-{}-01", "0".repeat(16)),
            format!("00-{span}-{trace}-01"),
        ] {
            assert_eq!(with(&broken).as_span(), None, "{broken}");
        }
        let later = with(&format!("01-{trace}-{span}-01-more"));
        assert!(later.as_span().is_some(), "a version to come");
        let odd = TraceContext {
            tracestate: Some("no=thing=,,".to_owned()),
            ..with(&format!("00-{trace}-{span}-00"))
        };
        assert!(!odd.as_span().unwrap().is_sampled());
    }
}
