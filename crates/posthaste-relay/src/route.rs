//! Which destination an event goes to: by its topic, first match wins.

use std::fmt;

/// A topic with wildcards: `*` stands for any text, `?` for one character.
#[derive(Clone, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// Takes the text as it is: every text is a pattern.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Whether a topic matches as a whole.
    pub fn matches(&self, topic: &str) -> bool {
        let pattern: Vec<char> = self.0.chars().collect();
        let topic: Vec<char> = topic.chars().collect();
        let (mut p, mut t) = (0, 0);
        // Where to go on after a mismatch: the last `*`, having it swallow one more character.
        let mut back: Option<(usize, usize)> = None;
        while t < topic.len() {
            match pattern.get(p) {
                Some('*') => {
                    back = Some((p, t));
                    p += 1;
                }
                Some(c) if *c == '?' || *c == topic[t] => {
                    p += 1;
                    t += 1;
                }
                _ => match back {
                    Some((star, from)) => {
                        back = Some((star, from + 1));
                        p = star + 1;
                        t = from + 1;
                    }
                    None => return false,
                },
            }
        }
        pattern[p..].iter().all(|c| *c == '*')
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, topic, matches) in [
            ("*", "", true),
            ("*", "a.b", true),
            ("shop.*", "shop.order.placed.v1", true),
            ("shop.*", "shop", false),
            ("*.v1", "shop.order.placed.v1", true),
            ("*.v1", "shop.order.placed.v11", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("", "", true),
            ("", "a", false),
            ("exact", "exact", true),
            ("**", "x", true),
        ] {
            assert_eq!(
                Pattern::new(pattern).matches(topic),
                matches,
                "{pattern} {topic}"
            );
        }
    }
}
