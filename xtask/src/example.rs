//! `cargo xtask example`: runs one of the example systems on servers of its own.
//!
//! Knows what each system needs, and nothing of what it does: a system is a package of its name in
//! `examples/`, and takes its addresses from the environment.

use crate::cargo::{cargo, run};
use crate::servers::start_postgres;
use crate::{Failure, Result};
use posthaste_testkit::server::{Kafka, Options, RabbitMq};
use std::any::Any;
use std::fmt::Write as _;

/// What a system can be given, each in a variable of the environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    Postgres,
    Kafka,
    RabbitMq,
}

impl Need {
    fn variable(self) -> &'static str {
        match self {
            Self::Postgres => "DATABASE_URL",
            Self::Kafka => "KAFKA_BROKERS",
            Self::RabbitMq => "AMQP_URL",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Postgres => "PostgreSQL",
            Self::Kafka => "Kafka",
            Self::RabbitMq => "RabbitMQ",
        }
    }

    /// Starts a server: its address, and what keeps it alive.
    fn start(self) -> Result<(String, Box<dyn Any>)> {
        match self {
            Self::Postgres => {
                let server = start_postgres()?;
                Ok((server.url(), Box::new(server)))
            }
            Self::Kafka => {
                let server = Kafka::start(Options::new()).map_err(Failure::new)?;
                Ok((server.brokers(), Box::new(server)))
            }
            Self::RabbitMq => {
                let server = RabbitMq::start(Options::new()).map_err(Failure::new)?;
                Ok((server.url(), Box::new(server)))
            }
        }
    }
}

/// A system that an example shows.
pub(crate) struct System {
    /// Of its package, and of its folder in `examples/`.
    pub(crate) name: &'static str,
    /// Whether it is one of the five that a document describes.
    pub(crate) has_document: bool,
    about: &'static str,
    needs: &'static [Need],
}

/// The systems of the five documents, and the producers in other languages.
pub(crate) static SYSTEMS: [System; 6] = [
    System {
        name: "mini-chat",
        has_document: true,
        about: "a chat whose turns and usage events commit together",
        needs: &[Need::Postgres],
    },
    System {
        name: "org",
        has_document: true,
        about: "modules with an outbox each, one active relay, an in-process bus",
        needs: &[Need::Postgres],
    },
    System {
        name: "order-service",
        has_document: true,
        about: "orders and payments, delivered to Kafka",
        needs: &[Need::Postgres, Need::Kafka],
    },
    System {
        name: "logistics",
        has_document: true,
        about: "orders of a haulier, many parallel workers, crashes",
        needs: &[Need::Postgres, Need::RabbitMq],
    },
    System {
        name: "farm",
        has_document: true,
        about: "domain events of aggregates, delivered to RabbitMQ",
        needs: &[Need::Postgres, Need::RabbitMq],
    },
    System {
        name: "producers",
        has_document: false,
        about: "Go, Java, Python, SQL and TypeScript on one outbox",
        needs: &[Need::Postgres],
    },
];

/// `cargo xtask example`: runs the system that the first argument names, with the others; lists all
/// systems without one.
pub(crate) fn example(arguments: &[String]) -> Result {
    let Some((name, rest)) = arguments.split_first() else {
        print!("{}", list());
        return Ok(());
    };
    let system = find(name)?;
    let package = ["--package", system.name];
    // Built first: what does not compile needs no server.
    run(cargo(["build"]).args(package))?;
    let mut command = cargo(["run", "--quiet"]);
    command.args(package).arg("--").args(rest);
    let mut servers = Vec::new();
    for need in system.needs {
        let (address, server) = need.start()?;
        command.env(need.variable(), address);
        servers.push(server);
    }
    run(&mut command)
}

fn find(name: &str) -> Result<&'static System> {
    let mut systems = SYSTEMS.iter();
    systems
        .find(|system| system.name == name)
        .ok_or_else(|| Failure {
            message: format!("there is no example `{name}`; there are\n\n{}", list()),
            code: 2,
        })
}

fn list() -> String {
    let mut lines = String::new();
    for system in &SYSTEMS {
        let needs: Vec<&str> = system.needs.iter().map(|need| need.name()).collect();
        let (name, about, needs) = (system.name, system.about, needs.join(", "));
        // Writing to a text does not fail.
        let _ = writeln!(lines, "  {name:<15} {about} ({needs})");
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{Need, SYSTEMS, find, list};
    use crate::cargo::root;
    use std::fs;

    #[test]
    fn every_system_is_listed_with_what_it_needs() {
        let list = list();
        for system in &SYSTEMS {
            assert!(list.contains(system.name), "{list}");
        }
        assert!(list.contains("Kafka (PostgreSQL, Kafka)"), "{list}");
        assert_eq!(list.lines().count(), SYSTEMS.len());
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let Err(failure) = find("mini-cat") else {
            panic!("there is no mini-cat");
        };
        assert_eq!(failure.code, 2);
        assert!(failure.message.contains("mini-chat"), "{}", failure.message);
    }

    #[test]
    fn every_system_asks_for_the_variables_that_it_is_given_and_for_no_other() {
        let every = [Need::Postgres, Need::Kafka, Need::RabbitMq];
        for system in &SYSTEMS {
            let main = root()
                .join("examples")
                .join(system.name)
                .join("src/main.rs");
            let main = fs::read_to_string(main).unwrap();
            for need in every {
                let asked = main.contains(&format!("\"{}\"", need.variable()));
                let given = system.needs.contains(&need);
                assert_eq!(asked, given, "{}: {need:?}", system.name);
            }
        }
    }

    #[test]
    fn every_readme_begins_with_the_command_that_runs_its_system() {
        for system in &SYSTEMS {
            let readme = root().join("examples").join(system.name).join("README.md");
            let readme = fs::read_to_string(readme).unwrap();
            let (_, block) = readme.split_once("```sh\n").unwrap();
            let first = block.lines().next().unwrap();
            let command = first.split('#').next().unwrap().trim();
            let expected = format!("cargo xtask example {}", system.name);
            assert_eq!(command, expected, "{}", system.name);
        }
    }

    #[test]
    fn every_system_is_a_different_one() {
        let mut names: Vec<&str> = SYSTEMS.iter().map(|system| system.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
