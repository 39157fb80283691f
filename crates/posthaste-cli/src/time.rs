//! Times and durations: as people write and read them, and exactly.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;

const UNITS: [(&str, u64); 6] = [
    ("w", 7 * 86_400_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];

/// Reads `90s`, `1h30m` or `7d`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let refuse = |why: &str| Err(format!("{why}: write it as 90s, 1h30m or 7d"));
    let mut rest = text;
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit());
        let (number, after) = match number {
            Some(0) => return refuse("a whole number is missing"),
            Some(end) => rest.split_at(end),
            None => return refuse("the unit is missing"),
        };
        let end = after.find(|c: char| c.is_ascii_digit());
        let (unit, after) = after.split_at(end.unwrap_or(after.len()));
        let Some((_, millis)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return refuse("the unit is not known");
        };
        let part = number
            .parse::<u64>()
            .ok()
            .and_then(|n| n.checked_mul(*millis));
        let Some(sum) = part.and_then(|part| total.checked_add(part)) else {
            return refuse("it is too long");
        };
        (total, rest) = (sum, after);
    }
    match text {
        "" => refuse("it is empty"),
        _ => Ok(Duration::from_millis(total)),
    }
}

/// A time exactly: RFC 3339, in UTC.
pub(crate) fn exact(time: SystemTime) -> String {
    match Timestamp::try_from(time) {
        Ok(time) => format!("{time:.6}"),
        // Further away than four-digit years.
        Err(_) => format!("{time:?}"),
    }
}

/// How far away a time is, to read at a glance: `3m ago`, `in 2h`.
pub(crate) fn relative(time: SystemTime, now: SystemTime) -> String {
    match now.duration_since(time) {
        Ok(ago) if ago < Duration::from_secs(1) => "now".to_owned(),
        Ok(ago) => format!("{} ago", brief(ago)),
        Err(ahead) => format!("in {}", brief(ahead.duration())),
    }
}

/// A duration to read at a glance: its largest unit, and the next one while that matters.
pub(crate) fn brief(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    let two = |large: u64, unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit}{small}{small_unit}"),
    };
    match seconds {
        0 if duration.is_zero() => "0s".to_owned(),
        0 => format!("{}ms", duration.as_millis()),
        1..60 => format!("{seconds}s"),
        60..600 => two(minutes, "m", seconds % 60, "s"),
        600..3600 => format!("{minutes}m"),
        3600..86_400 => two(hours, "h", minutes, "m"),
        86_400..864_000 => two(days, "d", hours, "h"),
        _ => format!("{days}d"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, seconds) in [
            ("0s", 0.0),
            ("500ms", 0.5),
            ("90s", 90.0),
            ("1h30m", 5400.0),
            ("2w", 1_209_600.0),
        ] {
            assert_eq!(
                parse_duration(text).unwrap().as_secs_f64(),
                seconds,
                "{text}"
            );
        }
        for text in [
            "",
            "1",
            "s",
            "1x",
            "-1s",
            "1.5s",
            "1 s",
            "99999999999999999999s",
            "9999999999999999w",
        ] {
            let why = parse_duration(text).unwrap_err();
            assert!(why.contains("write it as"), "{text}: {why}");
        }
    }

    #[test]
    fn durations_are_shown_to_be_read_at_a_glance() {
        for (millis, text) in [
            (0, "0s"),
            (35, "35ms"),
            (1999, "1s"),
            (59_000, "59s"),
            (60_000, "1m"),
            (185_000, "3m5s"),
            (3_599_000, "59m"),
            (5_400_000, "1h30m"),
            (90_000_000, "1d1h"),
            (900_000_000, "10d"),
        ] {
            assert_eq!(brief(Duration::from_millis(millis)), text);
        }
        let now = SystemTime::now();
        assert_eq!(relative(now, now), "now");
        assert_eq!(relative(now - Duration::from_secs(60), now), "1m ago");
        assert_eq!(relative(now + Duration::from_secs(60), now), "in 1m");
    }
}
