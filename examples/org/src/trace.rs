//! The trace that the current task belongs to, as a request brought it.
//!
//! With OpenTelemetry, `TraceContext::opentelemetry` takes the place of [`current`].

use posthaste::TraceContext;

tokio::task_local! {
    static CURRENT: TraceContext;
}

/// Does some work as a part of this trace.
pub async fn within<W: Future>(trace: TraceContext, work: W) -> W::Output {
    CURRENT.scope(trace, work).await
}

/// The trace that is going on here, if there is one.
pub fn current() -> Option<TraceContext> {
    CURRENT.try_with(Clone::clone).ok()
}
