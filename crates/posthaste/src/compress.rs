//! Large payloads are stored and delivered compressed, with the encoding stated in a header.

use std::io::Read;

use bytes::Bytes;

use crate::header::ZSTD;
use crate::message::Payload;

/// Which payloads are compressed with zstd, and how much work to put into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compression {
    /// Payloads of more than this many bytes are. Defaults to 4 KiB.
    pub above: usize,
    /// From 1 (fast) to 22 (small). Defaults to 3.
    pub level: i32,
}

impl Default for Compression {
    fn default() -> Self {
        Self {
            above: 4 * 1024,
            level: 3,
        }
    }
}

impl Compression {
    /// The payload in fewer bytes. `None`: it is to stay as it is.
    pub(crate) fn of(self, payload: &Payload) -> Option<Vec<u8>> {
        let bytes = match payload {
            Payload::Json(text) => text.as_bytes(),
            Payload::Bytes(bytes) => bytes,
        };
        if bytes.len() <= self.above {
            return None;
        }
        let level = self.level.clamp(1, 22);
        // It fails for want of memory only, and then the payload as it is does as well.
        let compressed = zstd::bulk::compress(bytes, level).ok()?;
        (compressed.len() < bytes.len()).then_some(compressed)
    }
}

/// Why a payload was not decompressed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecompressError {
    /// The encoding is not known here.
    #[error("the payload is encoded as {0:?}, and only zstd is known here")]
    Unknown(String),
    /// It would be larger than is wanted.
    #[error(
        "the payload has more than {limit} bytes when decompressed: if that is right, raise the limit"
    )]
    TooLarge {
        /// The limit that was given.
        limit: usize,
    },
    /// It is not what its encoding says.
    #[error("the payload cannot be decompressed: it is not whole, or was changed on its way")]
    Damaged(#[source] std::io::Error),
}

impl DecompressError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown(_) => "payload.encoding_unknown",
            Self::TooLarge { .. } => "payload.too_large",
            Self::Damaged(_) => "payload.damaged",
        }
    }
}

/// The payload as it was enqueued, given the `content-encoding` that it arrived with, if any.
///
/// For consumers. However much it says it holds, no more than `limit` bytes are made of it:
/// [`DEFAULT_PAYLOAD_LIMIT`](crate::DEFAULT_PAYLOAD_LIMIT), unless the producer has another limit.
///
/// ```
/// # fn main() -> Result<(), posthaste::DecompressError> {
/// let payload = posthaste::decompress(None, "as it is".into(), posthaste::DEFAULT_PAYLOAD_LIMIT)?;
/// assert_eq!(payload, "as it is");
/// # Ok(()) }
/// ```
pub fn decompress(
    encoding: Option<&str>,
    payload: Bytes,
    limit: usize,
) -> Result<Bytes, DecompressError> {
    match encoding.unwrap_or_default() {
        "" | "identity" => Ok(payload),
        ZSTD => unzstd(&payload, limit).map(Bytes::from),
        other => Err(DecompressError::Unknown(other.chars().take(64).collect())),
    }
}

fn unzstd(payload: &[u8], limit: usize) -> Result<Vec<u8>, DecompressError> {
    let too_large = DecompressError::TooLarge { limit };
    let limit = limit as u64;
    let stated = zstd::zstd_safe::get_frame_content_size(payload).unwrap_or_default();
    if stated.is_some_and(|size| size > limit) {
        return Err(too_large);
    }
    let read = || {
        let mut decoder = zstd::stream::read::Decoder::with_buffer(payload)?;
        // Nor may it ask for a larger window than what it may hold: that is memory, too.
        decoder.window_log_max(limit.max(1024).next_power_of_two().ilog2().min(31))?;
        let mut content = Vec::new();
        decoder
            .take(limit.saturating_add(1))
            .read_to_end(&mut content)?;
        Ok(content)
    };
    let content: Vec<u8> = read().map_err(DecompressError::Damaged)?;
    match content.len() as u64 > limit {
        true => Err(too_large),
        false => Ok(content),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 100_000;

    fn compressed(text: &str) -> Option<Bytes> {
        let compression = Compression {
            above: 1000,
            ..Compression::default()
        };
        let payload = Payload::Json(text.to_owned());
        compression.of(&payload).map(Bytes::from)
    }

    fn decompressed(payload: Bytes) -> Result<Bytes, DecompressError> {
        decompress(Some(ZSTD), payload, LIMIT)
    }

    // F10
    #[test]
    fn only_what_is_above_the_threshold_is_compressed() {
        assert_eq!(compressed(&"x".repeat(1000)), None);
        let text = "x".repeat(1001);
        let payload = compressed(&text).unwrap();
        assert!(payload.len() < 100);
        assert_eq!(decompressed(payload).unwrap(), text);
    }

    // F10
    #[test]
    fn what_cannot_get_smaller_stays_as_it_is() {
        // A generator whose bytes show no pattern.
        let mut state = 1_u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .take(50_000)
        .collect();
        assert_eq!(Compression::default().of(&Payload::Bytes(noise)), None);
    }

    // F10
    #[test]
    fn no_more_is_made_of_a_payload_than_the_limit() {
        let at = |size: usize| compressed(&"x".repeat(size)).unwrap();
        assert_eq!(decompressed(at(LIMIT)).unwrap().len(), LIMIT);
        let code = |payload| decompressed(payload).unwrap_err().code();
        assert_eq!(code(at(LIMIT + 1)), "payload.too_large");
        assert_eq!(code(at(1 << 24)), "payload.too_large");
    }

    // F10: as of one who does not say how much it holds.
    #[test]
    fn a_bomb_that_does_not_state_its_size_is_refused() {
        let zeros = std::io::repeat(0).take(1 << 24);
        let bomb = zstd::stream::encode_all(zeros, 3).unwrap();
        assert!(bomb.len() < LIMIT, "{}", bomb.len());
        assert_eq!(
            zstd::zstd_safe::get_frame_content_size(&bomb).ok(),
            Some(None)
        );
        assert!(decompressed(bomb.into()).is_err());
        let modest = zstd::stream::encode_all(std::io::repeat(0).take(1 << 20), 1).unwrap();
        let refused = decompress(Some(ZSTD), modest.into(), 1 << 19).unwrap_err();
        assert!(matches!(
            refused,
            DecompressError::TooLarge { .. } | DecompressError::Damaged(_)
        ));
    }

    #[test]
    fn what_is_not_zstd_is_told_apart() {
        let whole = compressed(&"0123456789".repeat(1000)).unwrap();
        let mut cut = whole.clone();
        cut.truncate(whole.len() - 1);
        for damaged in [cut, Bytes::from_static(b"plain"), Bytes::new()] {
            let error = decompressed(damaged).unwrap_err();
            assert_eq!(error.code(), "payload.damaged");
        }
        let error = decompress(Some("br"), whole.clone(), LIMIT).unwrap_err();
        assert_eq!(error.code(), "payload.encoding_unknown");
        for none in [None, Some(""), Some("identity")] {
            assert_eq!(decompress(none, whole.clone(), LIMIT).unwrap(), whole);
        }
    }
}
