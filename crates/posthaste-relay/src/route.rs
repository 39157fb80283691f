//! Which destination an event goes to: the first route that matches.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use posthaste::{Event, Pattern};
use uuid::Uuid;

/// So many topics are remembered: producers can make any number.
pub(crate) const REMEMBERED: usize = 10_000;

/// Which events a route is for: those that match in everything that is said.
///
/// ```
/// use posthaste_relay::Matcher;
///
/// let orders = Matcher::from("shop.*").aggregate_type("Order");
/// ```
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Matcher {
    topic: Option<Pattern>,
    namespace: Option<Pattern>,
    tenant_id: Option<Uuid>,
    aggregate_type: Option<Pattern>,
}

impl Matcher {
    /// Every event.
    pub fn any() -> Self {
        Self::default()
    }

    /// Only topics that match this pattern.
    pub fn topic(mut self, pattern: &str) -> Self {
        self.topic = Some(Pattern::new(pattern));
        self
    }

    /// Only namespaces that match this pattern.
    pub fn namespace(mut self, pattern: &str) -> Self {
        self.namespace = Some(Pattern::new(pattern));
        self
    }

    /// Only this tenant.
    pub fn tenant(mut self, tenant_id: Uuid) -> Self {
        self.tenant_id = Some(tenant_id);
        self
    }

    /// Only types of aggregates that match this pattern.
    pub fn aggregate_type(mut self, pattern: &str) -> Self {
        self.aggregate_type = Some(Pattern::new(pattern));
        self
    }

    fn takes_topic(&self, topic: &str) -> bool {
        self.topic
            .as_ref()
            .is_none_or(|pattern| pattern.matches(topic))
    }

    /// Whether the topic says it all.
    fn is_by_topic(&self) -> bool {
        self.namespace.is_none() && self.tenant_id.is_none() && self.aggregate_type.is_none()
    }

    /// Whether an event matches whose topic does.
    fn takes_rest(&self, event: &Event) -> bool {
        let fits = |pattern: &Option<Pattern>, text: &str| {
            pattern.as_ref().is_none_or(|pattern| pattern.matches(text))
        };
        fits(&self.namespace, &event.namespace)
            && (self.tenant_id.is_none() || self.tenant_id == event.tenant_id)
            && (self.aggregate_type.is_none() || event.aggregate_type.is_some())
            && fits(
                &self.aggregate_type,
                event.aggregate_type.as_deref().unwrap_or_default(),
            )
    }
}

/// Topics that match the pattern.
impl From<&str> for Matcher {
    fn from(topic: &str) -> Self {
        Self::any().topic(topic)
    }
}

/// Topics that match the pattern.
impl From<&String> for Matcher {
    fn from(topic: &String) -> Self {
        Self::any().topic(topic)
    }
}

/// Topics that match the pattern.
impl From<String> for Matcher {
    fn from(topic: String) -> Self {
        Self::any().topic(&topic)
    }
}

impl fmt::Debug for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenant_id = self.tenant_id.map(|tenant| tenant.to_string());
        let said = [
            ("topic", self.topic.as_ref().map(Pattern::as_str)),
            ("namespace", self.namespace.as_ref().map(Pattern::as_str)),
            ("tenant", tenant_id.as_deref()),
            (
                "aggregate_type",
                self.aggregate_type.as_ref().map(Pattern::as_str),
            ),
        ];
        let said: Vec<String> = said
            .into_iter()
            .filter_map(|(name, value)| Some(format!("{name} {:?}", value?)))
            .collect();
        match said.is_empty() {
            true => f.write_str("every event"),
            false => f.write_str(&said.join(", ")),
        }
    }
}

/// The routes of a relay, and what is known of the topics that it has seen.
pub(crate) struct Routes {
    routes: Vec<(Matcher, usize)>,
    topics: Mutex<HashMap<String, Arc<Ways>>>,
}

/// The ways that events of one topic go.
struct Ways {
    /// The routes that they may take, in order, up to the first that all take.
    routes: Vec<usize>,
    /// Whether all of them go to one destination.
    is_one: bool,
}

impl Routes {
    pub(crate) fn new(routes: Vec<(Matcher, usize)>) -> Self {
        Self {
            routes,
            topics: Mutex::default(),
        }
    }

    /// Where an event goes, and whether all others of its topic go there, too.
    pub(crate) fn of(&self, event: &Event) -> (Option<usize>, bool) {
        let ways = self.ways(&event.topic);
        let mut routes = ways.routes.iter().map(|place| &self.routes[*place]);
        let found = routes.find(|(matcher, _)| matcher.takes_rest(event));
        (found.map(|(_, destination)| *destination), ways.is_one)
    }

    /// Whether all events of a topic go to one destination.
    pub(crate) fn are_one(&self, topic: &str) -> bool {
        self.ways(topic).is_one
    }

    fn ways(&self, topic: &str) -> Arc<Ways> {
        let mut topics = self.topics.lock().expect("not poisoned");
        if let Some(known) = topics.get(topic) {
            return known.clone();
        }
        let mut ways = self.find_ways(topic);
        if topics.len() >= REMEMBERED {
            // As no claim can leave it out, its events are put off one by one.
            ways.is_one = false;
            return Arc::new(ways);
        }
        let ways = Arc::new(ways);
        topics.insert(topic.to_owned(), ways.clone());
        ways
    }

    fn find_ways(&self, topic: &str) -> Ways {
        let mut routes = Vec::new();
        let mut destinations = Vec::new();
        let mut some_go_nowhere = true;
        for (place, (matcher, destination)) in self.routes.iter().enumerate() {
            if matcher.takes_topic(topic) {
                routes.push(place);
                destinations.push(*destination);
                if matcher.is_by_topic() {
                    some_go_nowhere = false;
                    break;
                }
            }
        }
        destinations.dedup();
        Ways {
            is_one: destinations.is_empty() || (destinations.len() == 1 && !some_go_nowhere),
            routes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[tokio::test]
    async fn the_first_route_that_matches_in_everything_is_taken() {
        let full = sample::full().await;
        let plain = sample::plain().await;
        for (matcher, takes_full, takes_plain) in [
            (Matcher::any(), true, true),
            (Matcher::from("shop.*"), true, true),
            (Matcher::from("mail.*"), false, false),
            (Matcher::any().namespace("e?"), true, false),
            (Matcher::any().namespace(""), false, true),
            (Matcher::any().tenant(sample::TENANT), true, false),
            (Matcher::any().tenant(Uuid::nil()), false, false),
            (Matcher::any().aggregate_type("O*"), true, false),
            (Matcher::any().aggregate_type("*"), true, false),
            (Matcher::from("shop.*").namespace("us"), false, false),
            (Matcher::from("mail.*").namespace("eu"), false, false),
        ] {
            let shown = format!("{matcher:?}");
            let routes = Routes::new(vec![(matcher, 7), ("*.order.*".into(), 8)]);
            for (event, takes) in [(&full, takes_full), (&plain, takes_plain)] {
                let expected = if takes { 7 } else { 8 };
                assert_eq!(routes.of(event).0, Some(expected), "{shown}");
            }
        }
        let nowhere = Routes::new(vec![("mail.*".into(), 0)]);
        assert_eq!(nowhere.of(&full).0, None);
    }

    #[test]
    fn a_topic_is_one_if_all_its_events_go_the_same_way() {
        let tenant = || Matcher::any().tenant(sample::TENANT);
        for (routes, one) in [
            (vec![("*".into(), 0)], true),
            (vec![("a".into(), 0), ("*".into(), 1)], true),
            (vec![(tenant(), 0), ("*".into(), 1)], false),
            (vec![(tenant(), 0), ("*".into(), 0)], true),
            (vec![(tenant(), 0)], false),
            (vec![("*".into(), 0), (tenant(), 1)], true),
            (vec![(tenant().topic("b"), 0), ("*".into(), 1)], true),
            (vec![], true),
        ] {
            let shown = format!("{routes:?}");
            assert_eq!(Routes::new(routes).are_one("a"), one, "{shown}");
        }
    }
}
