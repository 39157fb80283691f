//! The configuration as a user meets it: files and variables in, messages out, of the real program.
#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_posthaste");

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/config")
        .join(name)
}

fn files(name: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder(name)).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|it| it == "toml"));
    files.sort();
    files
}

/// `posthaste config …` in a folder, with these variables and no others of ours.
fn config(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let ours = std::env::vars().filter(|(name, _)| name.starts_with("POSTHASTE_"));
    let mut command = Command::new(PROGRAM);
    for (name, _) in ours {
        command.env_remove(name);
    }
    command
        .arg("config")
        .args(arguments)
        .envs(variables.iter().copied())
        .current_dir(folder)
        .output()
        .unwrap()
}

/// What was printed, and the exit code.
fn told(output: &Output) -> String {
    let part = |name: &str, bytes: &[u8]| match bytes {
        [] => String::new(),
        bytes => format!("{name}\n{}", String::from_utf8_lossy(bytes)),
    };
    let code = output.status.code().unwrap();
    let out = part("--- standard output", &output.stdout);
    let err = part("--- standard error", &output.stderr);
    format!("exit code {code}\n{out}{err}")
}

fn snapshots() -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("config/snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings
}

fn outcome(output: &Output) -> (Option<i32>, String) {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

/// B13: nor is a password shown that stands where none belongs.
fn explained_without_passwords(kind: &str, name: &str) {
    for arguments in [
        &["explain", "--config", name][..],
        &["explain", "--json", "--config", name],
    ] {
        let (_, text) = outcome(&config(&folder(kind), arguments, &[]));
        assert!(
            !text.contains("hunter2"),
            "{arguments:?} tells a password: {text}"
        );
    }
}

// B15
#[test]
fn every_broken_file_is_refused_with_its_message() {
    let files = files("broken");
    assert!(files.len() >= 40, "{}", files.len());
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap();
        let output = config(&folder("broken"), &["check", name], &[]);
        let text = told(&output);
        assert_eq!(output.status.code(), Some(2), "{name}: {text}");
        assert!(!text.contains("hunter2"), "{name} tells a password: {text}");
        let json = config(&folder("broken"), &["check", name, "--json"], &[]);
        let (code, json) = outcome(&json);
        assert_eq!(code, Some(2));
        assert!(!json.contains("hunter2"), "{name} tells a password: {json}");
        explained_without_passwords("broken", name);
        let stem = format!("broken_{}", name.trim_end_matches(".toml"));
        snapshots().bind(|| insta::assert_snapshot!(stem, text));
    }
}

#[test]
fn every_good_file_is_used() {
    for file in files("good") {
        let name = file.file_name().unwrap().to_str().unwrap();
        let output = config(&folder("good"), &["check", name], &[]);
        let text = told(&output);
        assert_eq!(output.status.code(), Some(0), "{name}: {text}");
        assert!(!text.contains("hunter2"), "{name} tells a password: {text}");
        explained_without_passwords("good", name);
        let stem = format!("good_{}", name.trim_end_matches(".toml"));
        snapshots().bind(|| insta::assert_snapshot!(stem, text));
    }
}

#[test]
fn colours_are_for_terminals() {
    let command = format!("{PROGRAM} config check value_zero.toml");
    let in_terminal = |kind: &str, no_color: &str| {
        let mut script = Command::new("script");
        let script = script.args(["-qec", &command, "/dev/null"]);
        let script = script
            .env("TERM", kind)
            .env("NO_COLOR", no_color)
            .current_dir(folder("broken"));
        outcome(&script.output().unwrap()).1
    };
    let colourful = in_terminal("xterm", "");
    assert!(colourful.contains("\u{1b}[1;31merror"), "{colourful}");
    assert!(!in_terminal("xterm", "1").contains('\u{1b}'));
    assert!(!in_terminal("dumb", "").contains('\u{1b}'));
    let (_, piped) = outcome(&config(
        &folder("broken"),
        &["check", "value_zero.toml"],
        &[],
    ));
    assert!(!piped.contains('\u{1b}'));
}

#[test]
fn mistakes_are_told_to_scripts() {
    let arguments = ["check", "many_mistakes_at_once.toml", "--json"];
    let output = config(
        &folder("broken"),
        &arguments,
        &[("POSTHASTE_LOG__LEVEL", "loud")],
    );
    snapshots().bind(|| insta::assert_snapshot!("json_many_mistakes", told(&output)));
    let problems: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for problem in problems.as_array().unwrap() {
        for field in ["severity", "key", "message", "help"] {
            assert!(problem[field].is_string(), "{field}: {problem}");
        }
        let placed =
            problem["line"].is_u64() && problem["column"].is_u64() && problem["file"].is_string();
        assert!(placed || problem["variable"].is_string(), "{problem}");
    }
    let output = config(&folder("good"), &["check", "minimal.toml", "--json"], &[]);
    assert_eq!(outcome(&output), (Some(0), "[]\n".to_owned()));
}

// B15
#[test]
fn the_environment_is_enough() {
    let nowhere = std::env::temp_dir();
    let variables = [
        (
            "POSTHASTE_DATABASE__URL",
            "postgres://app:hunter2@localhost/shop",
        ),
        ("POSTHASTE_OUTBOX__0__TABLE", "orders_outbox"),
        ("POSTHASTE_OUTBOX__0__RELAY__BATCH_SIZE", "100"),
        ("POSTHASTE_SINK__LOG__TYPE", "stdout"),
        ("POSTHASTE_TEST_POSTGRES", "postgres://localhost/other"),
    ];
    let output = config(&nowhere, &["check"], &variables);
    snapshots().bind(|| insta::assert_snapshot!("environment_only", told(&output)));
    let output = config(
        &nowhere,
        &["explain", "outbox.relay.batch_size"],
        &variables,
    );
    snapshots().bind(|| insta::assert_snapshot!("environment_explained", told(&output)));
}

#[test]
fn the_environment_stands_above_the_file() {
    let variables = [
        ("POSTHASTE_OUTBOX__0__RELAY__BATCH_SIZE", "7"),
        ("POSTHASTE_OUTBOX__0__TOPICS", "a.b.c.v1, d.e.f.v1"),
    ];
    let arguments = ["explain", "--config", "issue.toml"];
    let (_, text) = outcome(&config(&folder("good"), &arguments, &variables));
    let line = |key: &str| {
        let line = text.lines().find(|line| line.starts_with(key)).unwrap();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let variable = "POSTHASTE_OUTBOX__0__RELAY__BATCH_SIZE";
    assert_eq!(
        line("outbox.0.relay.batch_size"),
        format!("outbox.0.relay.batch_size 7 {variable}")
    );
    assert!(
        line("outbox.0.topics").contains(r#"["a.b.c.v1", "d.e.f.v1"] POSTHASTE_OUTBOX__0__TOPICS"#)
    );
    assert!(line("outbox.0.relay.lease").ends_with("issue.toml:16"));
}

#[test]
fn mistakes_in_the_environment_name_the_variable() {
    let variables = [
        (
            "POSTHASTE_DATABASE__ULR",
            "postgres://app:hunter2@localhost/shop",
        ),
        (
            "POSTHASTE_DATABASE__URL",
            "mysql://app:hunter2@localhost/shop",
        ),
        ("POSTHASTE_OUTBOX__0__RELAY__LEASE", "soon"),
        ("POSTHASTE_OUTBOX__0__RELAY__POLL_INTERVAL", "30s"),
        ("POSTHASTE_OUTBOX__0__RELAY__ENABLED", "yes"),
        ("POSTHASTE_OUTBOX__3__TABLE", "orders_outbox"),
        ("POSTHASTE_OUTBOX__99999999999__TABLE", "orders_outbox"),
        ("POSTHASTE_SINK__LOG__", "stdout"),
        ("POSTHASTE_SINK__9__TYPE", "stdout"),
    ];
    let output = config(&folder("good"), &["check", "minimal.toml"], &variables);
    assert!(!told(&output).contains("hunter2"));
    snapshots().bind(|| insta::assert_snapshot!("environment_mistakes", told(&output)));
}

#[test]
fn a_secret_may_come_from_a_file() {
    let check = |variables: &[(&str, &str)]| {
        let arguments = ["check", "minimal.toml"];
        outcome(&config(&folder("good"), &arguments, variables))
    };
    // The environment's file stands above the file's url.
    let (code, text) = check(&[("POSTHASTE_DATABASE__URL_FILE", "../secret/database_url")]);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("postgres://app:***@db.internal/shop"),
        "{text}"
    );
    let (code, text) = check(&[
        ("POSTHASTE_DATABASE__URL_FILE", "../secret/database_url"),
        (
            "POSTHASTE_DATABASE__URL",
            "postgres://app:hunter2@localhost/shop",
        ),
    ]);
    assert_eq!(code, Some(2));
    assert!(
        text.contains("both url and url_file are given") && !text.contains("hunter2"),
        "{text}"
    );
}

#[test]
fn no_output_shows_a_password() {
    let address = "postgres://app:hunter2@localhost/shop?application_name=x";
    let variables = [
        ("POSTHASTE_DATABASE__URL", address),
        ("POSTHASTE_OUTBOX__0__DATABASE__URL", address),
    ];
    for arguments in [
        &["check", "minimal.toml"][..],
        &["check", "minimal.toml", "--json"],
        &["explain", "--config", "minimal.toml"],
        &["explain", "--config", "minimal.toml", "--json"],
        &["explain", "--config", "minimal.toml", "database.url"],
        &[
            "explain",
            "--config",
            "minimal.toml",
            "database.url",
            "--json",
        ],
    ] {
        let (code, text) = outcome(&config(&folder("good"), arguments, &variables));
        assert_eq!(code, Some(0), "{text}");
        assert!(!text.contains("hunter2"), "{arguments:?}: {text}");
    }
}

// M10 B9 K4 N5 F3
#[test]
fn every_profile_is_explained_with_its_document() {
    for profile in ["mini-chat", "org", "order-service", "logistics", "farm"] {
        let variables = [("POSTHASTE_OUTBOX__0__PROFILE", profile)];
        let arguments = ["explain", "--config", "minimal.toml"];
        let (code, text) = outcome(&config(&folder("good"), &arguments, &variables));
        assert_eq!(code, Some(0), "{text}");
        let name = format!("profile_{profile}");
        snapshots().bind(|| insta::assert_snapshot!(name, text));
        let (code, text) = outcome(&config(
            &folder("good"),
            &["check", "minimal.toml"],
            &variables,
        ));
        assert_eq!(code, Some(0), "{text}");
    }
}

#[test]
fn an_unknown_key_is_not_explained_but_the_right_one_is_named() {
    for (key, meant) in [
        (
            "batch_size",
            "outbox.relay.batch_size or outbox.clean.batch_size",
        ),
        ("outbox.relay.batchsize", "outbox.relay.batch_size"),
        ("wibble", "`posthaste config explain` lists all"),
    ] {
        let (code, text) = outcome(&config(&folder("good"), &["explain", key], &[]));
        assert_eq!(code, Some(2));
        assert!(text.contains(meant), "{text}");
    }
}

#[test]
fn what_a_file_that_cannot_be_read_says_is_not_made_up_for_scripts() {
    let arguments = [
        "explain",
        "--config",
        "nowhere.toml",
        "--json",
        "outbox.relay.batch_size",
    ];
    let output = config(&folder("broken"), &arguments, &[]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    let (code, text) = outcome(&output);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("nowhere.toml cannot be read"), "{text}");
}

#[test]
fn a_broken_configuration_is_explained_as_far_as_it_goes() {
    let arguments = [
        "explain",
        "--config",
        "value_zero.toml",
        "outbox.relay.batch_size",
    ];
    let output = config(&folder("broken"), &arguments, &[]);
    snapshots().bind(|| insta::assert_snapshot!("explain_broken", told(&output)));
}

#[test]
fn a_file_that_is_named_has_to_be_there() {
    let (code, text) = outcome(&config(&folder("good"), &["check", "nowhere.toml"], &[]));
    assert_eq!(code, Some(2));
    assert!(text.contains("nowhere.toml cannot be read"), "{text}");
    let (code, text) = outcome(&config(
        &std::env::temp_dir(),
        &["check"],
        &[("POSTHASTE_CONFIG", "gone.toml")],
    ));
    assert_eq!(code, Some(2));
    assert!(text.contains("gone.toml cannot be read"), "{text}");
}

/// Set `POSTHASTE_TEST_UPDATE=1` to write it anew.
#[test]
fn the_reference_in_docs_is_what_the_program_prints() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let output = config(&folder("good"), &["reference"], &[]);
    let printed = String::from_utf8(output.stdout).unwrap();
    if std::env::var_os("POSTHASTE_TEST_UPDATE").is_some() {
        std::fs::write(&file, &printed).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        written == printed,
        "docs/configuration.md is not up to date: POSTHASTE_TEST_UPDATE=1 cargo test -p posthaste-cli --test config"
    );
}

/// A TOML file as JSON, as an editor hands it to a schema.
fn as_json(value: &toml::de::DeValue<'_>) -> serde_json::Value {
    use toml::de::DeValue;
    match value {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Integer(number) => serde_json::from_str(number.as_str()).unwrap(),
        DeValue::Float(number) => serde_json::from_str(number.as_str()).unwrap(),
        DeValue::Boolean(value) => (*value).into(),
        DeValue::Datetime(date) => date.to_string().into(),
        DeValue::Array(items) => items.iter().map(|item| as_json(item.get_ref())).collect(),
        DeValue::Table(table) => {
            let entries = table.iter();
            entries
                .map(|(name, item)| (name.get_ref().to_string(), as_json(item.get_ref())))
                .collect()
        }
    }
}

#[test]
fn editors_can_use_the_schema() {
    let output = config(&folder("good"), &["schema"], &[]);
    let schema = serde_json::from_slice(&output.stdout).unwrap();
    jsonschema::draft202012::meta::validate(&schema).unwrap();
    let schema = jsonschema::draft202012::new(&schema).unwrap();
    let accepts = |file: &Path| {
        let text = std::fs::read_to_string(file).unwrap();
        let table = toml::de::DeTable::parse(&text).unwrap().into_inner();
        schema.is_valid(&as_json(&toml::de::DeValue::Table(table)))
    };
    for file in files("good") {
        assert!(accepts(&file), "{} is good", file.display());
    }
    // What is wrong with a single key is seen by a schema; how keys go together is not.
    let seen = [
        "unknown_",
        "wrong_type_",
        "one_bracket",
        "two_brackets",
        "sink_without",
        "value_",
    ];
    let unseen = [
        "value_table_name",
        "value_url_file",
        "value_url_port",
        "value_url_in_memory",
        "value_url_with_parameters",
        "value_tenant",
    ];
    let mut count = 0;
    for file in files("broken") {
        let name = file.file_stem().unwrap().to_str().unwrap();
        if seen.iter().any(|it| name.starts_with(it))
            && !unseen.iter().any(|it| name.starts_with(it))
        {
            assert!(!accepts(&file), "{name} is broken");
            count += 1;
        }
    }
    assert!(count > 30, "{count}");
}

#[test]
fn whoever_stops_reading_breaks_nothing() {
    let mut command = Command::new(PROGRAM);
    let command = command.args(["config", "schema"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert!(command.stdout(writer).status().unwrap().success());
}
