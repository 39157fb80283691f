//! Which events a request is about: the same words in a query and in a body.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use posthaste::store::{Filter, Mark};
use posthaste::{DeadReason, Pattern, Status};
use uuid::Uuid;

use super::super::fault::Fault;
use crate::config::measure::parse_duration;

/// Makes a filter. Every word is known, or refused.
pub(super) fn filter(words: BTreeMap<String, String>) -> Result<Filter, Fault> {
    let mut filter = Filter::default();
    if let Some(text) = words.get("q") {
        search(&mut filter, text);
    }
    // A search is for the one or for the other, and what was given besides would be lost.
    for (name, searched) in [
        ("topic", filter.topic.is_some()),
        ("id", !filter.ids.is_empty()),
    ] {
        if searched && words.contains_key(name) {
            let message = format!("q is about the {name} here, and so is {name}: give one of them");
            return Err(Fault::new("admin.query", message));
        }
    }
    for (name, value) in words {
        match name.as_str() {
            "status" => filter.status = listed(&name, &value, Status::parse)?,
            "id" => filter.ids = listed(&name, &value, |id| Uuid::try_parse(id).ok())?,
            "topic" => filter.topic = Some(Pattern::new(value)),
            "namespace" => filter.scope.namespace = Some(value),
            "tenant" => filter.scope.tenant_id = Some(one(&name, &value, Uuid::try_parse)?),
            "event_type" => filter.event_type = Some(value),
            "aggregate_type" => filter.aggregate_type = Some(value),
            "aggregate_id" => filter.aggregate_id = Some(value),
            "error" => filter.error = Some(value),
            "fingerprint" => filter.fingerprint = Some(value),
            "reason" => {
                let parse = |text: &str| DeadReason::parse(text).ok_or(());
                filter.reason = Some(one(&name, &value, parse)?);
            }
            "older_than" => filter.older_than = Some(one(&name, &value, parse_duration)?),
            "newer_than" => filter.newer_than = Some(one(&name, &value, parse_duration)?),
            "q" => {}
            _ => {
                let message = format!("a filter has no {name:?}");
                return Err(Fault::new("admin.query", message));
            }
        }
    }
    Ok(filter)
}

/// One text, as somebody types it: an id, or a part of a topic.
fn search(filter: &mut Filter, text: &str) {
    let text = text.trim();
    match Uuid::try_parse(text) {
        Ok(id) => filter.ids = vec![id],
        Err(_) if text.is_empty() => {}
        Err(_) => filter.topic = Some(Pattern::new(format!("*{text}*"))),
    }
}

fn one<T, E>(
    name: &str,
    value: &str,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, Fault> {
    parse(value).map_err(|_| Fault::new("admin.query", format!("{name} cannot be {value:?}")))
}

fn listed<T>(name: &str, value: &str, parse: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, Fault> {
    let each = value.split(',').map(|part| {
        parse(part.trim())
            .ok_or_else(|| Fault::new("admin.query", format!("{name} cannot be {part:?}")))
    });
    each.collect()
}

/// A place among pages, as text: microseconds and sequence.
pub(super) fn cursor(mark: Mark) -> String {
    let micros = match mark.at.duration_since(UNIX_EPOCH) {
        Ok(after) => i128::try_from(after.as_micros()).unwrap_or(i128::MAX),
        Err(before) => -i128::try_from(before.duration().as_micros()).unwrap_or(i128::MAX),
    };
    format!("{micros}_{}", mark.sequence)
}

/// Reads it back.
pub(super) fn mark(text: &str) -> Result<Mark, Fault> {
    let read = || {
        let (micros, sequence) = text.split_once('_')?;
        let micros: i64 = micros.parse().ok()?;
        let by = Duration::from_micros(micros.unsigned_abs());
        let at = match micros < 0 {
            true => UNIX_EPOCH.checked_sub(by),
            false => UNIX_EPOCH.checked_add(by),
        };
        // Within what every database can hold.
        let bounds = UNIX_EPOCH..SystemTime::now() + Duration::from_secs(100 * 366 * 86_400);
        Some(Mark {
            at: at.filter(|at| bounds.contains(at))?,
            sequence: sequence.parse().ok()?,
        })
    };
    read().ok_or_else(|| Fault::new("admin.query", "cursor is not one that a page ended with"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> BTreeMap<String, String> {
        let pairs = text.split_whitespace().filter_map(|it| it.split_once('='));
        pairs.map(|(a, b)| (a.to_owned(), b.to_owned())).collect()
    }

    #[test]
    fn words_make_a_filter() {
        let filter = filter(words(
            "status=dead,pending topic=shop.* reason=rejected older_than=1h30m error=timeout",
        ))
        .unwrap();
        assert_eq!(filter.status, [Status::Dead, Status::Pending]);
        assert_eq!(filter.reason, Some(DeadReason::Rejected));
        assert_eq!(filter.older_than, Some(Duration::from_secs(5400)));
        assert_eq!(filter.topic.unwrap().as_str(), "shop.*");
    }

    #[test]
    fn what_is_no_word_of_a_filter_is_refused() {
        for odd in [
            "status=gone",
            "tenant=7",
            "reason=bored",
            "older_than=7",
            "colour=red",
        ] {
            assert!(filter(words(odd)).is_err(), "{odd}");
        }
    }

    #[test]
    fn a_search_is_for_an_id_or_a_part_of_a_topic() {
        let id = Uuid::from_u128(7);
        assert_eq!(filter(words(&format!("q={id}"))).unwrap().ids, [id]);
        let by_topic = filter(words("q=order")).unwrap().topic.unwrap();
        assert!(by_topic.matches("shop.order.placed.v1"));
        assert!(filter(words("q=")).unwrap().is_everything());
        // Neither of the two is dropped.
        for both in [
            "q=paid topic=shop.*".to_owned(),
            format!("q={id} id={}", Uuid::from_u128(8)),
        ] {
            assert!(filter(words(&both)).is_err(), "{both}");
        }
        let other = filter(words(&format!("q={id} topic=shop.*"))).unwrap();
        assert_eq!(other.ids, [id]);
        assert_eq!(other.topic.unwrap().as_str(), "shop.*");
    }

    #[test]
    fn a_cursor_is_read_back_and_an_odd_one_refused() {
        let place = Mark {
            at: UNIX_EPOCH + Duration::from_micros(1_700_000_000_123_456),
            sequence: -7,
        };
        assert_eq!(mark(&cursor(place)).unwrap(), place);
        for odd in ["", "7", "x_y", "1_", "9223372036854775807_1", "-5_1"] {
            assert!(mark(odd).is_err(), "{odd}");
        }
    }
}
