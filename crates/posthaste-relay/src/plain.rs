//! Payloads as their producers wrote them: a large one may be stored and delivered compressed.

use std::borrow::Cow;

use bytes::Bytes;
use posthaste::Event;
use posthaste::header::CONTENT_ENCODING;

/// However much a compressed payload says that it holds, no more than this is made of it for a handler.
const LIMIT: usize = 64 << 20;

/// The payload as it was enqueued, or why it cannot be had.
pub(crate) fn plain(event: &Event) -> Result<Cow<'_, Bytes>, String> {
    plain_within(event, LIMIT)
}

/// The same, if it is no larger than this once it is decompressed.
pub(crate) fn plain_within(event: &Event, limit: usize) -> Result<Cow<'_, Bytes>, String> {
    match event.headers.get(CONTENT_ENCODING).map(String::as_str) {
        None | Some("" | "identity") => Ok(Cow::Borrowed(&event.payload)),
        Some(encoding) => decompressed(event, encoding, limit).map(Cow::Owned),
    }
}

#[cfg(feature = "zstd")]
fn decompressed(event: &Event, encoding: &str, limit: usize) -> Result<Bytes, String> {
    use posthaste::DecompressError::TooLarge;
    posthaste::decompress(Some(encoding), event.payload.clone(), limit).map_err(|error| match error {
        // The limit is ours: no user can raise it.
        TooLarge { limit } => format!(
            "the payload has more than {limit} bytes when decompressed: take it with `Bus::on` and `posthaste::decompress`"
        ),
        error => error.to_string(),
    })
}

#[cfg(not(feature = "zstd"))]
fn decompressed(_event: &Event, encoding: &str, _limit: usize) -> Result<Bytes, String> {
    Err(format!(
        "the payload is compressed ({encoding}): build posthaste-relay with its feature zstd"
    ))
}
