//! Durations and sizes with their units.

use std::time::Duration;

/// From the largest to the smallest, with its milliseconds.
const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];

pub(crate) fn parse_duration(text: &str) -> Result<Duration, &'static str> {
    let mut rest = text;
    let mut total: u64 = 0;
    let mut units = UNITS.iter();
    if text.is_empty() {
        return Err("it is empty");
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit());
        let (number, after) = match digits {
            Some(0) => return Err("a whole number is missing"),
            Some(end) => rest.split_at(end),
            None => return Err("the unit is missing"),
        };
        let end = after
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        if UNITS.iter().all(|(name, _)| *name != unit) {
            return Err("the unit is not known");
        }
        // The iterator goes on from the last unit, so that each comes once, and in its order.
        let Some((_, millis)) = units.find(|(name, _)| *name == unit) else {
            return Err("larger units come first, each once");
        };
        total = number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(*millis))
            .and_then(|part| total.checked_add(part))
            .ok_or("it is too long")?;
        rest = after;
    }
    Ok(Duration::from_millis(total))
}

pub(crate) fn show_duration(duration: Duration) -> String {
    let mut rest = duration.as_millis();
    if !rest.is_multiple_of(1000) && rest < 60_000 {
        return format!("{rest}ms");
    }
    let mut text = String::new();
    for (unit, millis) in UNITS {
        let (number, left) = (rest / u128::from(millis), rest % u128::from(millis));
        if number > 0 {
            text.push_str(&format!("{number}{unit}"));
        }
        rest = left;
    }
    if text.is_empty() {
        text.push_str("0s");
    }
    text
}

const SIZES: [(&str, u64); 4] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];

pub(crate) fn parse_size(text: &str) -> Option<u64> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let bytes = match unit.trim_start() {
        "" => 1,
        unit => SIZES.iter().find(|(name, _)| *name == unit)?.1,
    };
    number.parse::<u64>().ok()?.checked_mul(bytes)
}

pub(crate) fn show_size(bytes: u64) -> String {
    match SIZES
        .iter()
        .find(|(_, size)| bytes > 0 && bytes.is_multiple_of(*size))
    {
        Some((unit, size)) if *size > 1 => format!("{}{unit}", bytes / size),
        _ => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_shown() {
        for (text, millis, shown) in [
            ("0s", 0, "0s"),
            ("500ms", 500, "500ms"),
            ("1s", 1000, "1s"),
            ("1600ms", 1600, "1600ms"),
            ("90s", 90_000, "1m30s"),
            ("5m", 300_000, "5m"),
            ("1h30m", 5_400_000, "1h30m"),
            ("168h", 604_800_000, "7d"),
            ("1d2h3m4s5ms", 93_784_005, "1d2h3m4s5ms"),
        ] {
            let duration = parse_duration(text).unwrap();
            assert_eq!(duration, Duration::from_millis(millis), "{text}");
            assert_eq!(show_duration(duration), shown);
            assert_eq!(parse_duration(shown).unwrap(), duration);
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_with_its_reason() {
        for (text, why) in [
            ("", "empty"),
            ("5", "unit is missing"),
            ("s", "number is missing"),
            ("-1s", "number is missing"),
            ("1.5s", "unit is not known"),
            ("1 s", "unit is not known"),
            ("1w", "unit is not known"),
            ("1S", "unit is not known"),
            ("5m5m", "each once"),
            ("30m1h", "larger units come first"),
            ("99999999999999999999d", "too long"),
            ("18446744073709551615ms1", "unit is missing"),
            ("18446744073709551615d", "too long"),
        ] {
            let error = parse_duration(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn sizes_are_read_and_shown() {
        for (text, bytes, shown) in [
            ("16MiB", 16 << 20, "16MiB"),
            ("1024", 1024, "1KiB"),
            ("1 GiB", 1 << 30, "1GiB"),
            ("100B", 100, "100"),
            ("0", 0, "0"),
        ] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
            assert_eq!(show_size(bytes), shown);
        }
        for text in ["", "MiB", "1MB?", "-1", "1.5MiB", "99999999999999GiB"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }
}
