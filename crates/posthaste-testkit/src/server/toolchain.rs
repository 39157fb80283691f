//! Producers in other languages: built once with that language's own tools, and run as its users do.
//!
//! Knows how each language is built, and nothing of what its programs do. What is missing of Go,
//! Java and Node is installed from Debian's packages; third-party packages come from where the
//! language gets them, in the versions that the program's own files name.

use super::{Error, Postgres, Result, cache, debian, maven, program, python};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const JDK: &[&str] = &["default-jdk-headless"];
const NODE: &[&str] = &["nodejs", "npm"];

/// What a program can be written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Language {
    /// A module: `go.mod`, `go.sum` and its files.
    Go,
    /// `pom.xml` names the libraries; the class `Producer` is run.
    Java,
    /// `requirements.txt` names the packages; `producer.py` is run.
    Python,
    /// `producer.sql` is run by psql.
    Sql,
    /// `package-lock.json` names the packages, among them the compiler; `producer.js` is run.
    TypeScript,
}

impl Language {
    /// The program of this folder, ready to be run. What has to be built is built in the user's
    /// cache, once: as long as no file of it changes, nothing is built, and nothing is fetched.
    pub fn build(self, folder: &Path) -> Result<Program> {
        let (program, arguments) = match self {
            Self::Go => {
                let home = self.once(folder, make_go)?;
                (home.join("producer"), Vec::new())
            }
            Self::Java => {
                // Wanted even if the program was built long ago, on another machine.
                let java = program::find("java", || debian::install(JDK))?;
                (java, jvm(&self.once(folder, make_java)?))
            }
            Self::Python => {
                let packages = fs::read_to_string(folder.join("requirements.txt"))
                    .map_err(Error::doing("reading requirements.txt"))?;
                let interpreter = python::interpreter(&packages)?;
                (interpreter, vec![in_it(folder, "producer.py")])
            }
            Self::Sql => (Postgres::programs()?.join("psql"), psql(folder)),
            Self::TypeScript => {
                let node = program::find("node", || debian::install(NODE))?;
                let home = self.once(folder, make_typescript)?;
                (node, vec![in_it(&home, "producer.js")])
            }
        };
        Ok(Program { program, arguments })
    }

    fn once(self, folder: &Path, make: fn(&Path) -> Result<()>) -> Result<PathBuf> {
        let files = files(folder)?;
        let key: String = files
            .iter()
            .map(|(name, text)| format!("{name}\n{}\n{text}\n", text.len()))
            .collect();
        cache::once(&format!("producer-{}", self.name()), &key, |home| {
            eprintln!("building {}", folder.display());
            for (name, text) in &files {
                fs::write(home.join(name), text)
                    .map_err(Error::doing(format!("writing {name}")))?;
            }
            make(home)
        })
    }

    /// In lower case, as its folder is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Go => "go",
            Self::Java => "java",
            Self::Python => "python",
            Self::Sql => "sql",
            Self::TypeScript => "typescript",
        }
    }
}

/// A program that was built.
#[derive(Debug, Clone)]
pub struct Program {
    program: PathBuf,
    arguments: Vec<String>,
}

impl Program {
    /// To run it, with further arguments.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::null());
        command
    }
}

fn make_go(home: &Path) -> Result<()> {
    let go = program::find("go", || debian::install(&["golang-go"]))?;
    let mut build = Command::new(go);
    build.args([
        "build",
        "-trimpath",
        "-buildvcs=false",
        "-o",
        "producer",
        ".",
    ]);
    // The Go that is there, no compiler for C, and the versions of go.mod.
    build.env("GOTOOLCHAIN", "local").env("CGO_ENABLED", "0");
    build.env("GOFLAGS", "-mod=readonly").env("GOWORK", "off");
    run(home, &mut build)
}

fn make_java(home: &Path) -> Result<()> {
    maven::fetch(home)?;
    // Kafka needs Java only to run: the compiler may be missing.
    let compiler = program::find("javac", || debian::install(JDK))?;
    let mut compile = Command::new(compiler);
    compile.args(["-encoding", "UTF-8", "-cp", "jars/*", "-d", "classes"]);
    run(home, compile.arg("Producer.java"))
}

fn make_typescript(home: &Path) -> Result<()> {
    let npm = program::find("npm", || debian::install(NODE))?;
    let mut install = Command::new(&npm);
    run(
        home,
        install.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]),
    )?;
    let mut compile = Command::new(npm);
    run(home, compile.args(["exec", "--offline", "--", "tsc"]))
}

/// The quick way to start and end, as the program is a small one.
fn jvm(home: &Path) -> Vec<String> {
    let classes = format!("{}:{}", in_it(home, "classes"), in_it(home, "jars/*"));
    let options = [
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-Xshare:auto",
    ];
    let mut arguments: Vec<String> = options.map(str::to_owned).into();
    arguments.extend(["-cp".to_owned(), classes, "Producer".to_owned()]);
    arguments
}

fn psql(home: &Path) -> Vec<String> {
    let mut arguments: Vec<String> = ["-X", "-q", "-A", "-t"].map(str::to_owned).into();
    arguments.extend(["-f".to_owned(), in_it(home, "producer.sql")]);
    arguments
}

fn in_it(home: &Path, name: &str) -> String {
    home.join(name).to_string_lossy().into_owned()
}

/// The files of a program, by name: those that are directly in its folder.
fn files(folder: &Path) -> Result<Vec<(String, String)>> {
    let reading = || format!("reading {}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::doing(reading()))? {
        let path = entry.map_err(Error::doing(reading()))?.path();
        // What somebody built there by hand is in folders, or a program.
        if let (true, Some(name), Ok(text)) =
            (path.is_file(), path.file_name(), fs::read_to_string(&path))
        {
            files.push((name.to_string_lossy().into_owned(), text));
        }
    }
    files.sort();
    Ok(files)
}

fn run(home: &Path, command: &mut Command) -> Result<()> {
    let shown = format!("{command:?}");
    let output = command
        .current_dir(home)
        .stdin(Stdio::null())
        .output()
        .map_err(Error::doing(format!("running {shown}")))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(Error::new(format!(
            "{shown} failed:\n{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ))),
    }
}
