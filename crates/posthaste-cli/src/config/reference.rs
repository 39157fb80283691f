//! The reference in `docs/configuration.md`, written from the table of keys.

use std::fmt::Write as _;

use super::explain::{as_toml, default, particular};
use super::keys::{self, Key, SECTIONS, Section, Shape};
use super::kind::Kind;
use super::profile::{PROFILES, presets};
use super::sinks::SINKS;

const HEAD: &str = include_str!("reference_head.md");

/// The whole page.
pub(crate) fn reference() -> String {
    let mut out = HEAD.to_owned();
    for section in SECTIONS {
        let _ = writeln!(out, "\n## `{}`\n\n{}\n", section.header(), section.doc);
        table(&mut out, section, section.keys.iter());
        if section.shape == Shape::Named {
            for sink in SINKS {
                let _ = writeln!(out, "\n### `type = \"{}\"`\n\n{}", sink.name, sink.doc);
                match sink.keys {
                    [] => out.push_str("\nIt has no keys of its own.\n"),
                    keys => {
                        out.push('\n');
                        table(&mut out, section, keys.iter());
                    }
                }
            }
        }
    }
    profiles(&mut out);
    out
}

fn table(out: &mut String, section: &Section, keys: impl Iterator<Item = &'static Key>) {
    out.push_str("| key | default | what it does | environment |\n|---|---|---|---|\n");
    for key in keys {
        let variable = keys::variable(&particular(section, key));
        let default = match default(key).as_str() {
            word @ ("unset" | "required") => word.to_owned(),
            value => format!("`{value}`"),
        };
        let _ = writeln!(
            out,
            "| `{}` | {default} | {}{} | `{variable}` |",
            key.name,
            key.doc,
            holds(key)
        );
    }
}

/// Which values it takes, where that is not plain from the default: such as `One of "none", "key".`
fn holds(key: &Key) -> String {
    match key.kind {
        Kind::Word(_) | Kind::Integer { .. } | Kind::Texts | Kind::Uuid => {
            let text = key.kind.describe();
            let (first, rest) = text.split_at(1);
            format!(" {}{rest}.", first.to_uppercase())
        }
        _ => String::new(),
    }
}

fn profiles(out: &mut String) {
    out.push_str(
        "\n## Profiles\n\n`profile = \"…\"` under `[[outbox]]` sets what the document of that system gives. \
         What it leaves open is the default, and keys that are given win.\n",
    );
    for profile in PROFILES {
        let _ = writeln!(
            out,
            "\n### `{profile}`\n\n| key | value | where its document says so |\n|---|---|---|"
        );
        for (key, value, section) in presets(profile) {
            let (_, found) =
                keys::find(&format!("outbox.{key}")).expect("tested for every profile");
            let value = as_toml(found, value);
            let _ = writeln!(out, "| `{key}` | `{value}` | {section} |");
        }
    }
}
