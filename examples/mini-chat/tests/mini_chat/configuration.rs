//! What the deployment configures, in code, in `posthaste.toml` and in the environment.

use std::time::Duration;

use mini_chat::{NAMESPACE, OUTBOX, configured, settings};
use posthaste_relay::Retry;
use posthaste_testkit::scene::posthaste;
use serde_json::Value;

use crate::support::*;

/// What the admin command prints, with the configuration of this example.
fn told(arguments: &[&str]) -> String {
    let output = posthaste()
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

// mini-chat-3.3.4, mini-chat-1.7.3, mini-chat-2.2.7, M10
#[test]
fn the_settings_are_those_of_the_document_in_code_and_in_the_configuration() {
    told(&["config", "check"]);
    let explained: Vec<Value> =
        serde_json::from_str(&told(&["config", "explain", "--json"])).unwrap();
    let key = |name: &str| {
        let row = explained.iter().find(|row| row["key"] == name);
        let row = row.unwrap_or_else(|| panic!("there is no {name}"));
        row["value"].as_str().unwrap().trim_matches('"').to_owned()
    };
    let settings = settings();
    let retry = Retry::EqualJitter {
        base: Duration::from_secs(1),
        max: Duration::from_secs(300),
    };
    assert_eq!(settings.retry, retry);
    assert_eq!(settings.problems(), []);
    let seconds = |duration: Duration| format!("{}s", duration.as_secs());
    for (name, in_code) in [
        ("table", OUTBOX.to_owned()),
        ("namespace", NAMESPACE.to_owned()),
        ("relay.batch_size", settings.batch_size.to_string()),
        ("relay.poll_interval", seconds(settings.poll_interval)),
        ("relay.lease", seconds(settings.lease)),
        ("relay.dispatch_timeout", seconds(settings.dispatch_timeout)),
        ("retry.max_attempts", settings.max_attempts.to_string()),
        ("retry.policy", "equal-jitter".to_owned()),
        ("retry.base", "1s".to_owned()),
        ("retry.max", "5m".to_owned()),
        // The service publishes by itself.
        ("relay.enabled", "false".to_owned()),
    ] {
        assert_eq!(key(&format!("outbox.0.{name}")), in_code, "{name}");
    }
    assert_eq!(settings.scope.namespace.as_deref(), Some(NAMESPACE));
}

// mini-chat-2.2.7, mini-chat-3.3.4, mini-chat-3.3.7
#[test]
fn the_deployment_configures_the_dispatcher_by_variables() {
    let read = |variables: &'static [(&str, &str)]| {
        configured(|name| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    };
    let settings = read(&[
        ("MINI_CHAT_POLL_INTERVAL", "250ms"),
        ("MINI_CHAT_RETRY_BASE", "0.5s"),
        ("MINI_CHAT_RETRY_MAX", "2m"),
        ("MINI_CHAT_MAX_ATTEMPTS", "7"),
    ])
    .unwrap();
    assert_eq!(
        (settings.poll_interval, settings.max_attempts),
        (MS(250), 7)
    );
    let retry = Retry::EqualJitter {
        base: MS(500),
        max: Duration::from_secs(120),
    };
    assert_eq!(settings.retry, retry);
    let default = read(&[("MINI_CHAT_POLL_INTERVAL", "")]).unwrap();
    assert_eq!(default.retry, mini_chat::settings().retry);
    for (wrong, told) in [
        (
            &[("MINI_CHAT_RETRY_MAX", "long")] as &[_],
            "MINI_CHAT_RETRY_MAX must be a time such as 500ms",
        ),
        (
            &[("MINI_CHAT_MAX_ATTEMPTS", "-1")],
            "MINI_CHAT_MAX_ATTEMPTS must be a whole number",
        ),
    ] {
        let error = read(wrong).unwrap_err().to_string();
        assert!(error.starts_with(told), "{error}");
    }
    let readme = include_str!("../../README.md");
    for name in ["POLL_INTERVAL", "RETRY_BASE", "RETRY_MAX", "MAX_ATTEMPTS"] {
        assert!(
            readme.contains(&format!("| `MINI_CHAT_{name}` |")),
            "{name}"
        );
    }
}
