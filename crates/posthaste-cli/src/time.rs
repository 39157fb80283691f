//! Times and durations: as people write and read them, and exactly.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;

use crate::config::measure;

/// Reads `90s`, `1h30m` or `7d`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    measure::parse_duration(text).map_err(|why| format!("{why}: write it as 90s, 1h30m or 7d"))
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
