//! Topics with wildcards: to say which destination an event goes to, and which events to look at.

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

    /// Whether every topic matches.
    pub fn is_any(&self) -> bool {
        !self.0.is_empty() && self.0.chars().all(|c| c == '*')
    }

    /// Whether only the length of a topic could keep it from matching.
    pub(crate) fn says_nothing(&self) -> bool {
        self.0.contains('*') && self.0.chars().all(|c| matches!(c, '*' | '?'))
    }

    /// The text, as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The same as the right side of `like` in SQL, with `\` before what is to be taken as it is.
    #[cfg(feature = "postgres")]
    pub(crate) fn like(&self) -> String {
        let mut like = String::with_capacity(self.0.len() + 8);
        for c in self.0.chars() {
            match c {
                '*' => like.push('%'),
                '?' => like.push('_'),
                '%' | '_' | '\\' => like.extend(['\\', c]),
                c => like.push(c),
            }
        }
        like
    }

    /// The same as the right side of `glob` in SQLite, which tells upper from lower case.
    #[cfg(feature = "sqlite")]
    pub(crate) fn glob(&self) -> String {
        self.0.replace('[', "[[]")
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
