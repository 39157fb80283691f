//! `posthaste token create`: what is printed once, and what is kept.

use std::process::Command;

fn create(arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    let output = command
        .args(["token", "create"])
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn a_token_is_printed_with_the_line_that_lets_it_in() {
    let (code, out, _) = create(&["ada", "--role", "operator", "--expires", "90d"]);
    assert_eq!(code, 0);
    let lines: Vec<&str> = out.lines().map(str::trim).collect();
    let secret = lines.iter().find(|line| line.starts_with("phst_")).unwrap();
    let line = lines
        .iter()
        .find(|line| line.starts_with("ada operator sha256:"))
        .unwrap();
    assert!(line.ends_with('Z') && !line.contains(*secret), "{line}");
    let (_, other, _) = create(&["ada", "--role", "operator", "--expires", "90d"]);
    assert_ne!(out, other);
}

#[test]
fn a_role_or_a_name_that_there_is_not_is_refused() {
    for arguments in [
        &["ada", "--role", "root"][..],
        &["a b"],
        &["ada", "--expires", "soon"],
        &[],
    ] {
        let (code, out, err) = create(arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {err}");
    }
    let (_, out, _) = create(&["prometheus"]);
    assert!(
        out.contains("prometheus viewer-no-payload sha256:"),
        "{out}"
    );
}
