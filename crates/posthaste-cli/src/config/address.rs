//! Addresses: those of databases checked, and all shown without their passwords.

use posthaste::store::sqlite::Sqlite;

use super::kind::Refusal;

/// Whether this can be the address of a database. What is refused is not repeated: it may hold a password.
pub(crate) fn check_address(text: &str) -> Result<(), Refusal> {
    if let Some(file) = text.strip_prefix("sqlite:") {
        return match file.trim_start_matches('/') {
            "" => Err(Refusal::new(
                "the file is missing",
                "such as \"sqlite:shop.db\"",
            )),
            _ if file.contains(":memory:") => Err(Refusal::new(
                "a database in memory is seen by no other process",
                "name a file, such as \"sqlite:shop.db\"",
            )),
            _ => Sqlite::path(text).map(drop).map_err(|_| {
                Refusal::new(
                    "it says more than the path of a file",
                    "write the path alone, such as \"sqlite:shop.db\"; of parameters only ?mode=rwc is understood",
                )
            }),
        };
    }
    if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
        let what = match text.split_once("://") {
            Some((scheme, _)) if scheme.chars().all(|c| c.is_ascii_alphanumeric()) => {
                format!("there is no store for {scheme}://")
            }
            _ => "it is not the address of a database".to_owned(),
        };
        return Err(Refusal::new(
            what,
            "\"postgres://user:password@host:5432/database\" or \"sqlite:shop.db\"",
        ));
    }
    text.parse::<tokio_postgres::Config>().map(|_| ()).map_err(|error| {
        // Only what cannot hold a part of the address.
        let why = std::error::Error::source(&error)
            .map(ToString::to_string)
            .filter(|why| why.starts_with("invalid value for option"))
            .map_or_else(String::new, |why| format!(": {why}"));
        Refusal::new(
            format!("it is not a valid PostgreSQL address{why}"),
            "\"postgres://user:password@host:5432/database\", with special characters percent-encoded",
        )
    })
}

/// An address with its password replaced, or nothing of it if it is not one.
pub(crate) fn without_password(text: &str) -> String {
    if text.starts_with("sqlite:") {
        return text.to_owned();
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        return "***".to_owned();
    };
    // The last @ ends the password, even if it was not encoded as it should be.
    let (who, place) = match rest.rsplit_once('@') {
        Some((who, place)) => (Some(who), place),
        None => (None, rest),
    };
    if who.is_some_and(|who| who.contains(['?', '='])) {
        return format!("{scheme}://***");
    }
    // Options may hold one, too, even if their question mark is missing.
    let place = match place.split_once('?') {
        None if !place.contains('=') => place.to_owned(),
        Some((place, _)) if !place.contains('=') => format!("{place}?***"),
        _ => "***".to_owned(),
    };
    match who.map(|who| who.split_once(':').unwrap_or((who, ""))) {
        Some((user, "")) => format!("{scheme}://{user}@{place}"),
        Some((user, _)) => format!("{scheme}://{user}:***@{place}"),
        None => format!("{scheme}://{place}"),
    }
}

/// What a property is called that holds a secret.
const SECRET_NAMES: [&str; 7] = [
    "password",
    "passphrase",
    "secret",
    "token",
    "credential",
    "pem",
    "oauthbearer.config",
];

/// Any text of a configuration as people may see it: whoever writes a password where none belongs finds it
/// refused, and not repeated.
pub(crate) fn without_secrets(text: &str) -> String {
    if text.contains("://") {
        return without_password(text);
    }
    // An address whose scheme was left out: `user:password@host`.
    if let Some((who, place)) = text.rsplit_once('@')
        && who.contains(':')
    {
        return format!("***@{place}");
    }
    // A property: `name=value`.
    match text.split_once('=') {
        Some((name, _)) if SECRET_NAMES.iter().any(|secret| name.contains(secret)) => {
            format!("{name}=***")
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::kind::Kind;
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        for (text, shown) in [
            ("postgres://localhost/shop", "postgres://localhost/shop"),
            ("postgres://app@db/shop", "postgres://app@db/shop"),
            (
                "postgres://app:hunter2@db/shop",
                "postgres://app:***@db/shop",
            ),
            (
                "postgres://app:hun@ter2@db/shop",
                "postgres://app:***@db/shop",
            ),
            ("postgres://app:a:b@db", "postgres://app:***@db"),
            ("postgres://app:a?b@db", "postgres://***"),
            ("postgres://a:b@db/x?password=c@d", "postgres://***"),
            (
                "postgres://db/shop?user=a&password=hunter2",
                "postgres://db/shop?***",
            ),
            ("host=db password=hunter2", "***"),
            ("sqlite:shop.db", "sqlite:shop.db"),
        ] {
            assert_eq!(without_password(text), shown);
        }
    }

    // B13
    #[test]
    fn any_text_is_shown_without_passwords_and_secrets() {
        for (text, shown) in [
            ("amqp://shop:hunter2@mq/v", "amqp://shop:***@mq/v"),
            (
                "https://hooks.example/{topic}",
                "https://hooks.example/{topic}",
            ),
            (
                "https://hooks.example/?key=hunter2",
                "https://hooks.example/?***",
            ),
            ("relay:hunter2@kafka-1:9092", "***@kafka-1:9092"),
            ("ssl.key.password=hunter2", "ssl.key.password=***"),
            (
                "sasl.oauthbearer.client.secret=hunter2",
                "sasl.oauthbearer.client.secret=***",
            ),
            ("batch.size=500000", "batch.size=500000"),
            ("relay@shop.example", "relay@shop.example"),
            ("{tenant|none}.{topic}", "{tenant|none}.{topic}"),
        ] {
            assert_eq!(without_secrets(text), shown);
        }
    }

    #[test]
    fn parameters_of_sqlite_are_refused_unless_they_change_nothing() {
        for text in [
            "sqlite:shop.db",
            "sqlite:shop.db?mode=rwc",
            "sqlite://shop.db?mode=rwc",
            "sqlite:///var/lib/shop.db?mode=rwc",
        ] {
            assert!(Kind::Database.parse(text).is_ok(), "{text}");
        }
        for text in [
            "sqlite:shop.db?mode=ro",
            "sqlite:shop.db?mode=memory",
            "sqlite:shop.db?mode=rwc&cache=shared",
            "sqlite:shop.db?",
            "sqlite:?mode=rwc",
            "sqlite:file:shop.db",
            "sqlite:file:shop.db?mode=rwc",
        ] {
            assert!(Kind::Database.parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_refused_address_is_not_repeated() {
        for text in [
            "hunter2",
            "mysql://root:hunter2@db/shop",
            "postgres://app:hunter2@db:port/shop",
            "postgres://app:x@db/shop?hunter2=1",
            "host=db password=hunter2",
            "sqlite:shop.db?key=hunter2",
        ] {
            let refusal = Kind::Database.parse(text).err().unwrap();
            assert!(!format!("{refusal:?}").contains("hunter2"), "{refusal:?}");
        }
    }
}
