//! The commands of the guide that need Docker or Kubernetes: held to what is shipped.

use std::process::Command;

use crate::kubernetes::{of_kind, pod};
use crate::{read, repository};

/// The lines of the guide that begin so, in words.
fn lines(program: &str) -> Vec<Vec<String>> {
    let guide = read("docs/deploy.md");
    let lines = guide.lines().filter(|line| line.starts_with(program));
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
    lines.map(words).collect()
}

#[test]
fn what_is_given_to_the_container_is_where_it_looks_and_the_program_knows_its_commands() {
    let image = read("Dockerfile");
    let line = |start: &str| {
        image
            .lines()
            .find_map(|line| line.strip_prefix(start))
            .unwrap()
    };
    let commands = lines("docker ");
    assert_eq!(commands[0], ["docker", "build", "--tag", "posthaste", "."]);
    assert!(commands.len() > 2);
    for command in &commands[1..] {
        let [docker, run, given @ ..] = &command[..] else {
            panic!("{command:?}");
        };
        assert_eq!((&**docker, &**run), ("docker", "run"));
        let at = given.iter().position(|word| word == "posthaste").unwrap();
        let volume = given.iter().skip_while(|word| *word != "--volume").nth(1);
        let expected = format!(
            "./posthaste.toml:/etc{}/posthaste.toml:ro",
            line("WORKDIR /etc")
        );
        assert_eq!(volume.unwrap(), &expected);
        let arguments = &given[at + 1..];
        let known = Command::new(env!("CARGO_BIN_EXE_posthaste"))
            .args(arguments)
            .arg("--help")
            .output();
        assert!(known.unwrap().status.success(), "{command:?}");
    }
}

#[test]
fn the_secret_that_the_guide_makes_is_the_one_that_the_pods_read() {
    let commands = lines("kubectl ");
    let [create, apply] = &commands[..] else {
        panic!("{commands:?}");
    };
    assert_eq!(create[..4], ["kubectl", "create", "secret", "generic"]);
    let volumes = pod()["volumes"].clone();
    let mut secrets = volumes
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|it| it["secret"]["secretName"].as_str());
    assert_eq!(secrets.next(), Some(&*create[4]));
    let mut keys: Vec<&str> = create[5..]
        .iter()
        .filter_map(|word| word.strip_prefix("--from-file="))
        .collect();
    keys.sort_unstable();
    let example = of_kind("Secret")["stringData"].clone();
    let mut expected: Vec<&String> = example.as_object().unwrap().keys().collect();
    expected.sort_unstable();
    assert_eq!(keys, expected);
    assert_eq!(apply[..3], ["kubectl", "apply", "--kustomize"]);
    assert!(
        repository()
            .join(&apply[3])
            .join("kustomization.yaml")
            .is_file()
    );
}
