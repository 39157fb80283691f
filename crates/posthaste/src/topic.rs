//! The topic rule: what a topic may look like.

/// Which topics an outbox takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TopicRule {
    /// `<module>.<aggregate>.<event>.vN` in `[a-z0-9.-]`, fewer than 128 characters.
    #[default]
    Strict,
    /// Anything printable, 1 to 255 bytes.
    Relaxed,
}

const STRICT_LIMIT: usize = 127;
const RELAXED_LIMIT: usize = 255;

impl TopicRule {
    /// Says what is wrong with a topic, and what would be right.
    pub fn check(self, topic: &str) -> Result<(), &'static str> {
        match self {
            Self::Strict => strict(topic),
            Self::Relaxed => relaxed(topic),
        }
    }
}

fn strict(topic: &str) -> Result<(), &'static str> {
    if topic.len() > STRICT_LIMIT {
        return Err("it must be shorter than 128 characters");
    }
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let parts: Vec<&str> = topic.split('.').collect();
    let well_formed = parts
        .iter()
        .all(|part| !part.is_empty() && part.chars().all(allowed));
    let version = parts
        .last()
        .and_then(|part| part.strip_prefix('v'))
        .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    match (well_formed, parts.len() >= 4, version) {
        (true, true, true) => Ok(()),
        (false, ..) => Err("use lower-case letters, digits and -, in parts joined by single dots"),
        (_, false, _) => {
            Err("write it as <module>.<aggregate>.<event>.vN, e.g. shop.order.placed.v1")
        }
        (.., false) => Err("end it with its version, e.g. .v1"),
    }
}

fn relaxed(topic: &str) -> Result<(), &'static str> {
    if topic.is_empty() {
        Err("it must not be empty")
    } else if topic.len() > RELAXED_LIMIT {
        Err("it must have at most 255 bytes")
    } else if topic.chars().any(char::is_control) {
        Err("control characters are not allowed")
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::TopicRule::{Relaxed, Strict};

    // B10
    #[test]
    fn a_topic_names_module_aggregate_event_and_version() {
        for good in [
            "org.organization.created.v1",
            "shop.order-line.re-priced.v12",
            "a.b.c.d.v1",
        ] {
            assert_eq!(Strict.check(good), Ok(()), "{good}");
        }
        let long = format!("shop.order.{}.v1", "x".repeat(120));
        for bad in [
            "",
            "orders",
            "shop.order.placed",
            "shop.order.placed.1",
            "shop.order.placed.v",
            "shop.order.placed.vx",
            "Shop.order.placed.v1",
            "shop..placed.v1",
            ".shop.order.placed.v1",
            "shop.order.placed.v1.",
            "shop.order.pl aced.v1",
            "shop.order.plac\0ed.v1",
            "shop.order.plàced.v1",
            &long,
        ] {
            assert!(Strict.check(bad).is_err(), "{bad}");
        }
    }

    // B10
    #[test]
    fn the_rule_can_be_relaxed_but_not_away() {
        assert_eq!(Relaxed.check("Order Placed"), Ok(()));
        for bad in ["", "a\nb", "a\0b", &"x".repeat(65536)] {
            assert!(Relaxed.check(bad).is_err());
        }
    }
}
