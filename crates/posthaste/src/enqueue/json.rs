//! What JSON text must satisfy, beyond being JSON, for PostgreSQL to store it as `jsonb`.

/// Deeper nesting can exhaust the stack of the server.
const DEPTH_LIMIT: usize = 512;
/// A number has at most 16383 digits after its point, with its exponent applied.
const DIGITS_LIMIT: usize = 1_000;
const EXPONENT_LIMIT: usize = 10_000;

/// Why a JSON text cannot be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    Nul,
    Other(&'static str),
}

/// Reads over a text that is known to be JSON. `jsonb` writes numbers without exponents, so that a
/// short text comes back long: with those digits it must not be longer than the limit. The spaces that `jsonb` writes
/// after `,` and `:` do not count, as no text becomes twice as long by them.
pub(super) fn check(json: &str, limit: usize) -> Result<(), Refusal> {
    let mut rest = json.as_bytes();
    let mut depth = 0_usize;
    let mut zeros = 0_usize;
    while let Some((&byte, after)) = rest.split_first() {
        rest = match byte {
            b'"' => string(after)?,
            b'-' | b'0'..=b'9' => {
                let (exponent, after) = number(rest)?;
                zeros += exponent;
                after
            }
            b'[' | b'{' => {
                depth += 1;
                if depth > DEPTH_LIMIT {
                    return Err(Refusal::Other("it is nested more than 512 deep"));
                }
                after
            }
            b']' | b'}' => {
                depth = depth.saturating_sub(1);
                after
            }
            _ => after,
        };
    }
    match json.len() + zeros > limit {
        false => Ok(()),
        true => Err(Refusal::Other(
            "its numbers without exponents are longer than the payload limit: write them as strings",
        )),
    }
}

/// What follows a string, whose opening quote is gone already.
fn string(mut rest: &[u8]) -> Result<&[u8], Refusal> {
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'"' | b'\\')) {
        if rest[at] == b'"' {
            return Ok(&rest[at + 1..]);
        }
        rest = match unit(&rest[at..]) {
            None => rest.get(at + 2..).unwrap_or_default(),
            Some(0) => return Err(Refusal::Nul),
            Some(0xd800..=0xdbff) => match unit(rest.get(at + 6..).unwrap_or_default()) {
                Some(0xdc00..=0xdfff) => &rest[at + 12..],
                _ => return Err(Refusal::Other("it has half a surrogate pair")),
            },
            Some(0xdc00..=0xdfff) => return Err(Refusal::Other("it has half a surrogate pair")),
            Some(_) => &rest[at + 6..],
        };
    }
    Ok(&[])
}

/// The value of an escape `\uXXXX` that this begins with.
fn unit(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// The exponent of the number that this begins with, without its sign, and what follows.
fn number(text: &[u8]) -> Result<(usize, &[u8]), Refusal> {
    let part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
    let end = text
        .iter()
        .position(|byte| !part(byte))
        .unwrap_or(text.len());
    let mut parts = text[..end].split(|byte| matches!(byte, b'e' | b'E'));
    let digits = parts.next().map_or(0, <[u8]>::len);
    let exponent = parts.next().map_or(Some(0), |exponent| {
        let text = std::str::from_utf8(exponent).ok()?;
        text.trim_start_matches(['+', '-']).parse().ok()
    });
    match exponent {
        Some(exponent) if exponent <= EXPONENT_LIMIT && digits <= DIGITS_LIMIT => {
            Ok((exponent, &text[end..]))
        }
        _ => Err(Refusal::Other("it has a number with too many digits")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 1024 * 1024;

    #[test]
    fn ordinary_json_passes() {
        for json in [
            r#"{"a": [1, -2.5e10, "x\\u0000", "\ud83d\ude00", "\u00e9"], "b\"": {}}"#,
            "null",
            r#""[[[""#,
            r#""\\""#,
        ] {
            assert_eq!(check(json, LIMIT), Ok(()), "{json}");
        }
    }

    #[test]
    fn only_a_real_nul_escape_counts() {
        for json in [r#""\u0000""#, r#""\\\u0000""#, r#"{"\u0000": 1}"#] {
            assert_eq!(check(json, LIMIT), Err(Refusal::Nul), "{json}");
        }
        assert_eq!(check(r#""\\u0000\u0001""#, LIMIT), Ok(()));
    }

    #[test]
    fn what_the_database_would_refuse_is_refused() {
        for json in [
            r#""\ud800""#,
            r#""\ud800x""#,
            r#""\udc00\ud800""#,
            r#""\ud800\u0041""#,
            "[1e-20000]",
            "1e99999999999999999999",
            &format!("0.{}", "1".repeat(20_000)),
            &"[".repeat(600),
        ] {
            assert!(
                matches!(check(json, LIMIT), Err(Refusal::Other(_))),
                "{json}"
            );
        }
    }

    #[test]
    fn numbers_count_as_they_come_back() {
        for json in ["[1e-4]", "[1e+4]", "[1E4]", "1e0004"] {
            assert_eq!(check(json, json.len() + 4), Ok(()), "{json}");
            assert!(
                matches!(check(json, json.len() + 3), Err(Refusal::Other(_))),
                "{json}"
            );
        }
        // Each is within the limits, and all together come back as 1.3 GB.
        let many = format!("[{}]", vec!["1e-9999"; 131_071].join(","));
        assert!(many.len() <= LIMIT);
        assert!(matches!(check(&many, LIMIT), Err(Refusal::Other(_))));
        let strings = format!("[{}]", vec![r#""1e-9999""#; 80_000].join(","));
        assert_eq!(check(&strings, LIMIT), Ok(()));
    }

    #[test]
    fn broken_text_is_somebody_elses_business() {
        for json in [
            "\"",
            "\"\\",
            "\"\\u",
            "\"\\ud800\\",
            "\"\\ud800",
            "-",
            "]",
            "1e",
            "\\",
        ] {
            let _ = check(json, LIMIT);
        }
    }
}
