//! Help: every command says what it does, and shows how.

use crate::place::Place;

const COMMANDS: [&str; 16] = [
    "demo",
    "run",
    "migrate",
    "doctor",
    "status",
    "list",
    "dead",
    "show",
    "redeliver",
    "discard",
    "clean",
    "tail",
    "enqueue",
    "config",
    "completions",
    "man",
];

#[test]
fn every_command_is_listed_and_explains_itself() {
    let place = Place::sqlite();
    let all = place.ask(&["--help"]).done();
    assert!(all.contains("Exit codes:"), "{all}");
    for command in COMMANDS {
        assert!(all.contains(&format!("\n  {command} ")), "{command}: {all}");
        let help = place.ask(&[command, "--help"]).done();
        assert!(
            help.contains(&format!("Usage: posthaste {command}")),
            "{help}"
        );
        assert!(
            help.contains("Examples:") || help.contains("Commands:"),
            "{help}"
        );
        assert!(
            help.lines().all(|line| line.chars().count() <= 100),
            "{help}"
        );
        let short = place.ask(&[command, "-h"]).done();
        assert!(short.len() <= help.len(), "{short}");
    }
    assert_eq!(place.ask(&["help"]).done(), all);
}

#[test]
fn nothing_typed_shows_the_help_and_nonsense_is_refused() {
    let place = Place::sqlite();
    let help = place.ask(&[]).fails(2);
    assert!(help.contains("Usage: posthaste"), "{help}");
    let why = place.ask(&["redelivre"]).fails(2);
    assert!(why.contains("redeliver"), "{why}");
}
