//! A payload for people: JSON indented, text as it is, anything else as a hex dump.

use crate::output::visible;

const INDENT: &str = "  ";
const BYTES_PER_LINE: usize = 16;

/// The lines to show.
pub(super) fn lines(payload: &[u8]) -> Vec<String> {
    match std::str::from_utf8(payload) {
        Ok(text) if is_json(text) => as_text(&indented(text)),
        Ok(text) if is_text(text) => as_text(text),
        _ => payload
            .chunks(BYTES_PER_LINE)
            .enumerate()
            .map(dumped)
            .collect(),
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

fn is_text(text: &str) -> bool {
    !text
        .chars()
        .any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t'))
}

fn as_text(text: &str) -> Vec<String> {
    text.lines()
        .map(|line| visible(line).into_owned())
        .collect()
}

/// JSON with a line for each value. Numbers and strings are copied to the letter: read and
/// written again, a large number would be another one.
fn indented(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let mut depth = 0;
    let mut chars = json.chars().peekable();
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n(INDENT, depth));
    };
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                out.push(c);
                while let Some(c) = chars.next() {
                    out.push(c);
                    match c {
                        '\\' => out.extend(chars.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            '{' | '[' => {
                out.push(c);
                while chars.next_if(|c| c.is_ascii_whitespace()).is_some() {}
                match chars.next_if(|next| matches!(next, '}' | ']')) {
                    Some(end) => out.push(end),
                    None => {
                        depth += 1;
                        line(&mut out, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => out.push(c),
        }
    }
    out
}

/// One line of a hex dump: where, the bytes, and those that are letters.
fn dumped((line, bytes): (usize, &[u8])) -> String {
    let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let letter = |byte: &u8| match byte.is_ascii_graphic() || *byte == b' ' {
        true => char::from(*byte),
        false => '.',
    };
    let letters: String = bytes.iter().map(letter).collect();
    let width = BYTES_PER_LINE * 3 - 1;
    format!(
        "{:08x}  {:<width$}  |{letters}|",
        line * BYTES_PER_LINE,
        hex.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_indented_and_not_changed() {
        let json = r#"{"n": 12345678901234567890.10, "s": "a, {\"b\": 1}", "e": [], "o": { }, "a": [1, [true]]}"#;
        let expected = [
            "{",
            "  \"n\": 12345678901234567890.10,",
            "  \"s\": \"a, {\\\"b\\\": 1}\",",
            "  \"e\": [],",
            "  \"o\": {},",
            "  \"a\": [",
            "    1,",
            "    [",
            "      true",
            "    ]",
            "  ]",
            "}",
        ];
        assert_eq!(lines(json.as_bytes()), expected);
    }

    #[test]
    fn what_is_no_text_is_dumped() {
        assert_eq!(lines(b"hello\nworld"), ["hello", "world"]);
        assert_eq!(
            lines(b"\x00\x01binary \x1b[2J and more"),
            [
                "00000000  00 01 62 69 6e 61 72 79 20 1b 5b 32 4a 20 61 6e  |..binary .[2J an|",
                "00000010  64 20 6d 6f 72 65                                |d more|",
            ]
        );
        assert!(lines(b"").is_empty());
        // In a string of JSON, which may hold it.
        assert_eq!(lines("\"\u{9b}2J\"".as_bytes()), ["\"\\u{9b}2J\""]);
    }
}
