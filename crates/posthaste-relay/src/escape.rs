//! Percent-encoding: what a destination does not allow is written so that it can be read back.

use std::borrow::Cow;

/// Writes every character that is not allowed, and every `%`, as the bytes of its UTF-8 (`%C3%BC`).
pub(crate) fn percent(text: &str, allows: impl Fn(char) -> bool) -> Cow<'_, str> {
    let stays = |c: char| c != '%' && allows(c);
    if text.chars().all(stays) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut bytes = [0; 4];
    for c in text.chars() {
        if stays(c) {
            out.push(c);
        } else {
            for byte in c.encode_utf8(&mut bytes).bytes() {
                out.push('%');
                out.push(digit(byte >> 4));
                out.push(digit(byte & 15));
            }
        }
    }
    Cow::Owned(out)
}

/// What a URI allows everywhere.
pub(crate) fn is_unreserved(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-._~".contains(c)
}

fn digit(nibble: u8) -> char {
    char::from_digit(nibble.into(), 16)
        .expect("a nibble is a digit")
        .to_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_allowed_is_escaped_and_two_texts_never_become_one() {
        assert_eq!(percent("a-b", is_unreserved), "a-b");
        assert_eq!(percent("a b", is_unreserved), "a%20b");
        assert_eq!(percent("a%20b", is_unreserved), "a%2520b");
        assert_eq!(
            percent("Euro € 😀", |c| c.is_ascii_graphic()),
            "Euro%20%E2%82%AC%20%F0%9F%98%80"
        );
    }
}
