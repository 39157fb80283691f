//! Each feature alone: a library must build, without warnings, with none of its features and with
//! any single one, because that is how applications use it. One that has no features was checked with
//! the workspace.

use crate::cargo::{cargo, run};
use crate::{Failure, Result};
use serde_json::Value;

/// Checks every library of the workspace without features, then with each feature alone.
pub(crate) fn check_each_alone() -> Result {
    for library in libraries()? {
        eprintln!("{}: no features", library.name);
        check(&library.name, None)?;
        for feature in &library.features {
            eprintln!("{}: {feature}", library.name);
            check(&library.name, Some(feature))?;
        }
    }
    Ok(())
}

/// By clippy rather than `cargo check`, as it denies warnings without building dependencies anew.
fn check(library: &str, feature: Option<&str>) -> Result {
    let mut command = cargo(["clippy", "--quiet", "--lib", "--no-default-features"]);
    command.args(["--package", library]);
    if let Some(feature) = feature {
        command.args(["--features", feature]);
    }
    run(command.args(["--", "--deny", "warnings"]))
}

#[derive(Debug, PartialEq)]
struct Library {
    name: String,
    features: Vec<String>,
}

fn libraries() -> Result<Vec<Library>> {
    let output = cargo(["metadata", "--no-deps", "--format-version=1"])
        .output()
        .map_err(|error| Failure::new(format!("cannot run `cargo metadata`: {error}")))?;
    if !output.status.success() {
        return Err(Failure::new(String::from_utf8_lossy(&output.stderr)));
    }
    let metadata = serde_json::from_slice(&output.stdout)
        .map_err(|error| Failure::new(format!("`cargo metadata` is not JSON: {error}")))?;
    Ok(read_libraries(&metadata))
}

fn read_libraries(metadata: &Value) -> Vec<Library> {
    list(&metadata["packages"])
        .iter()
        .filter(|package| list(&package["targets"]).iter().any(is_library))
        .filter_map(|package| {
            let features = package["features"].as_object()?;
            Some(Library {
                name: package["name"].as_str()?.to_owned(),
                features: features
                    .keys()
                    .filter(|feature| *feature != "default")
                    .cloned()
                    .collect(),
            })
        })
        .filter(|library| !library.features.is_empty())
        .collect()
}

fn is_library(target: &Value) -> bool {
    list(&target["kind"]).iter().any(|kind| kind == "lib")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::{Library, read_libraries};
    use serde_json::json;

    #[test]
    fn libraries_are_found_with_every_feature_but_default() {
        let metadata = json!({ "packages": [
            { "name": "tool", "features": { "one": [] }, "targets": [{ "kind": ["bin"] }] },
            { "name": "plain", "features": {}, "targets": [{ "kind": ["lib"] }] },
            {
                "name": "library",
                "features": { "default": ["one"], "one": [], "two": ["dep:two"] },
                "targets": [{ "kind": ["test"] }, { "kind": ["lib"] }],
            },
        ]});
        let expected = Library {
            name: "library".into(),
            features: vec!["one".into(), "two".into()],
        };
        assert_eq!(read_libraries(&metadata), [expected]);
    }
}
