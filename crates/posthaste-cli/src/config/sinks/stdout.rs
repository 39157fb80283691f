//! JSON lines on standard output.

use std::sync::Arc;

use posthaste_relay::sink;

use super::SinkType;

pub(super) const TYPE: SinkType = SinkType {
    name: "stdout",
    doc: "One JSON object per line on standard output, for trying things out and for pipes.",
    keys: &[],
    make: |_| Some(Arc::new(sink::stdout())),
};
