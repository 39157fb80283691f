//! Passwords in addresses, and what follows names that secrets go by.

use super::Mark;

/// So far the password in an address is looked for: a text may have thousands of addresses.
const ADDRESS: usize = 512;

pub(super) fn mark(text: &str, marks: &mut [Mark]) {
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let (shown, hidden) = address(rest)
            .or_else(|| secret(rest))
            .unwrap_or((c.len_utf8(), 0));
        at += shown;
        marks[at..at + hidden].fill(Mark::Secret);
        at += hidden;
    }
}

/// If this is where the scheme of an address ends: how much of it to show, and of what follows to hide.
fn address(text: &str) -> Option<(usize, usize)> {
    const SCHEME: &str = "://";
    const ENDS: &str = "\"'<>";
    let after = text.strip_prefix(SCHEME)?;
    let near = &after[..after.floor_char_boundary(ADDRESS)];
    let whole = &near[..until(near, ENDS)];
    let goes_on = whole.len() == near.len() && near.len() < after.len();
    let end = whole.find(['/', '?', '#']);
    let authority = &whole[..end.unwrap_or(whole.len())];
    // A password may hold, unescaped, what ends an authority. What follows a colon is a port else.
    let is_cut = match authority.split_once(':') {
        Some((user, port)) => !user.starts_with('[') && !port.bytes().all(|b| b.is_ascii_digit()),
        None => false,
    };
    let at = authority.rfind('@');
    let at = at.or_else(|| whole.rfind('@').filter(|_| is_cut));
    // All of it may be a password, whose end is further away.
    let hidden = match (goes_on && (end.is_none() || is_cut && at.is_none()), at) {
        (true, _) => until(after, ENDS),
        (false, Some(at)) => at,
        // It may hold a quote as well.
        (false, None) if is_cut => near[..until(near, "")].rfind('@').unwrap_or(0),
        (false, None) => 0,
    };
    Some((SCHEME.len(), hidden))
}

/// If this begins with a name that a secret goes by: how much of it to show, and of what follows to hide.
fn secret(text: &str) -> Option<(usize, usize)> {
    const NAMES: [&str; 13] = [
        "password",
        "passwd",
        "passphrase",
        "pwd",
        "secret",
        "token",
        "api_key",
        "apikey",
        "api-key",
        "access_key",
        "private_key",
        "signature",
        AUTHORIZATION,
    ];
    const AUTHORIZATION: &str = "authorization";
    const SCHEMES: [&str; 2] = ["bearer ", "basic "];
    let starts_with = |name: &str| {
        let start = text.get(..name.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(name))
    };
    if let Some(scheme) = SCHEMES.into_iter().find(|scheme| starts_with(scheme)) {
        let token = &text[scheme.len()..];
        let token = &token[..until(token, "&,;\"')}]")];
        // No word of a sentence about one.
        let is_token = token.len() > 20
            || token.bytes().any(|b| !b.is_ascii_alphabetic())
            || token.bytes().skip(1).any(|b| b.is_ascii_uppercase());
        return is_token.then_some((scheme.len(), token.len()));
    }
    let name = NAMES.into_iter().find(|name| starts_with(name))?;
    let value = text[name.len()..].trim_start_matches(['"', '\'', ' ', '=', ':', '\\']);
    let shown = text.len() - value.len();
    let separator = &text[name.len()..shown];
    if !separator.contains(['=', ':']) {
        return None;
    }
    let quote = separator.chars().next_back().filter(|c| "\"'".contains(*c));
    let hidden = match quote {
        // In JSON within JSON.
        Some(_) if separator.ends_with("\\\"") => value.find("\\\"").unwrap_or(value.len()),
        Some(quote) => quoted(value, quote),
        None if name == AUTHORIZATION => {
            let is_digest = value
                .get(..6)
                .is_some_and(|scheme| scheme.eq_ignore_ascii_case("digest"));
            // Which has quotes of its own.
            let ends = if is_digest { "\r\n" } else { "\r\n\"'" };
            value.find(|c| ends.contains(c)).unwrap_or(value.len())
        }
        None => {
            let scheme = scheme(value);
            scheme + until(&value[scheme..], "&,;\"')}]")
        }
    };
    Some((shown, hidden))
}

/// How long the name of a scheme is that a secret begins with, such as `Bearer `.
fn scheme(value: &str) -> usize {
    const NAMES: [&str; 4] = ["bearer ", "basic ", "token ", "apikey "];
    let begins_with = |name: &&str| {
        let start = value.get(..name.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(name))
    };
    NAMES.into_iter().find(begins_with).map_or(0, str::len)
}

/// How long a text is up to white space, or one of these.
fn until(text: &str, ends: &str) -> usize {
    let end = |c: char| c.is_whitespace() || ends.contains(c);
    text.find(end).unwrap_or(text.len())
}

/// How long a text is up to the quote that ends it.
fn quoted(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    let end = text.find(|c: char| {
        let ends = c == quote && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends
    });
    end.unwrap_or(text.len())
}
