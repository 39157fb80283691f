//! A private Apache Kafka: broker and controller in one process, in KRaft mode.

use super::account::Account;
use super::private::{Private, controls};
use super::watchdog::Habits;
use super::{Error, Options, Result, kafka_programs, port};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

const READY_WITHIN: Duration = Duration::from_secs(120);
const STOPPED_WITHIN: Duration = Duration::from_secs(60);
const PORT_TAKEN: &str = "Address already in use";
const STARTED: &str = "Kafka Server started";
/// Any cluster needs an id; nobody looks at it.
const CLUSTER: &str = "cG9zdGhhc3RlLXRlc3RzIQ";

const HABITS: Habits = Habits {
    name: "kafka",
    // Its files are removed a moment later: there is nothing to put in order.
    ending: "KILL",
};

/// Its log: warnings, and that it has started.
const LOG: &str = "\
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1} %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
logger.server.name = kafka.server.KafkaRaftServer
logger.server.level = info
";

/// A further address to reach a private server at.
#[derive(Debug, Clone, Copy)]
pub struct Listener {
    /// In upper case. Settings for it begin with `listener.name.` and its name in lower case.
    pub name: &'static str,
    /// `PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`.
    pub protocol: &'static str,
    /// The port that clients are told to use, e.g. that of a [`Proxy`](super::Proxy) in between.
    pub advertised: Option<u16>,
}

/// A Kafka server of one's own, on free ports of 127.0.0.1, in a temporary directory.
///
/// One node with one replica of everything, as durable as Kafka is by default: what it has
/// acknowledged survives its own death. Topics are not created by themselves. The server and its
/// directory are gone when this value is dropped, or its process ends in any way.
#[derive(Debug)]
pub struct Kafka {
    private: Private,
    settings: Vec<(String, String)>,
    port: u16,
    controller: u16,
    listeners: Vec<(Listener, u16)>,
}

controls!(Kafka);

impl Kafka {
    /// Makes a new cluster of one node and starts it, which takes some seconds. Java and Maven are
    /// installed if need be, and Kafka is fetched once.
    pub fn start(options: Options) -> Result<Self> {
        Self::start_with(options, &[], &[])
    }

    /// The same with further listeners, and with arguments for `format`, such as
    /// `--add-scram SCRAM-SHA-256=[name=a,password=b]`.
    pub fn start_with(options: Options, listeners: &[Listener], format: &[&str]) -> Result<Self> {
        let jars = match options.programs {
            Some(dir) => dir,
            None => kafka_programs::find_or_fetch()?,
        };
        let mut server = Self {
            private: Private::new(Account::unprivileged("kafka")?, HABITS)?,
            settings: options.settings,
            port: port::free()?,
            controller: port::free()?,
            listeners: Vec::new(),
        };
        for listener in listeners {
            server.listeners.push((*listener, port::free()?));
        }
        kafka_programs::lend(&jars, &server.private)?;
        server.write("log4j2.properties", LOG)?;
        server.configure()?;
        server.format(format)?;
        port::retried(server, PORT_TAKEN, Self::start_again, |server| {
            (server.port, server.controller) = (port::free()?, port::free()?);
            for (_, port) in &mut server.listeners {
                *port = port::free()?;
            }
            server.configure()
        })
    }

    /// The brokers that tests of this process share: those that `POSTHASTE_TEST_KAFKA` names, else a
    /// private one, started when it is first asked for.
    ///
    /// # Panics
    /// When it cannot be started: a missing server is a failure, never a skipped test.
    pub fn shared() -> String {
        static SHARED: LazyLock<Result<Kafka>> = LazyLock::new(|| Kafka::start(Options::new()));
        match std::env::var(super::TEST_KAFKA) {
            Ok(brokers) if !brokers.is_empty() => brokers,
            _ => match &*SHARED {
                Ok(server) => server.brokers(),
                Err(error) => panic!(
                    "these tests need Kafka: {error}; or set {}",
                    super::TEST_KAFKA
                ),
            },
        }
    }

    /// Where clients begin, without TLS and passwords.
    pub fn brokers(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Where clients of a further listener begin. Not its advertised port.
    pub fn listener(&self, name: &str) -> Option<String> {
        let mut listeners = self.listeners.iter();
        let (_, port) = listeners.find(|(listener, _)| listener.name == name)?;
        Some(format!("127.0.0.1:{port}"))
    }

    /// The process id; `None` while the server is stopped.
    pub fn pid(&self) -> Option<u32> {
        self.private.pid()
    }

    /// The directory of this server: `data`, its configuration and `server.log`.
    pub fn dir(&self) -> &Path {
        self.private.dir()
    }

    /// The file the server logs to.
    pub fn log(&self) -> PathBuf {
        self.private.log()
    }

    /// Starts a stopped or killed server again, on the same data and ports.
    pub fn start_again(&mut self) -> Result<()> {
        let mut command = self.java("kafka.Kafka");
        command.arg("server.properties");
        let before = self.times_started();
        let log = self.private.log();
        self.private
            .start(command, READY_WITHIN, |_| times_started(&log) > before)
    }

    fn times_started(&self) -> usize {
        times_started(&self.private.log())
    }

    fn format(&self, arguments: &[&str]) -> Result<()> {
        let mut command = self.java("kafka.tools.StorageTool");
        command.args(["format", "--config", "server.properties"]);
        command.args(["--cluster-id", CLUSTER]).args(arguments);
        let output = command.output().map_err(Error::doing("running java"))?;
        if output.status.success() {
            return Ok(());
        }
        Err(Error::new(format!(
            "Kafka's storage cannot be formatted:\n{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )))
    }

    fn java(&self, class: &str) -> Command {
        let mut command = self.private.command("java");
        command
            .args(["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
            .arg("-Dlog4j2.configurationFile=log4j2.properties")
            .args(["-cp", "jars/*", class]);
        command
    }

    fn configure(&self) -> Result<()> {
        let (port, controller) = (self.port, self.controller);
        let mut listeners = format!("PLAINTEXT://127.0.0.1:{port}");
        let mut advertised = listeners.clone();
        let mut protocols = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT".to_owned();
        for (listener, port) in &self.listeners {
            let told = listener.advertised.unwrap_or(*port);
            let (name, protocol) = (listener.name, listener.protocol);
            // Writing to a text does not fail.
            let _ = write!(listeners, ",{name}://127.0.0.1:{port}");
            let _ = write!(advertised, ",{name}://localhost:{told}");
            let _ = write!(protocols, ",{name}:{protocol}");
        }
        let _ = write!(listeners, ",CONTROLLER://127.0.0.1:{controller}");
        let data = self.private.dir().join("data");
        let ours = [
            ("process.roles", "broker,controller"),
            ("node.id", "1"),
            (
                "controller.quorum.voters",
                &format!("1@127.0.0.1:{controller}"),
            ),
            ("controller.listener.names", "CONTROLLER"),
            ("inter.broker.listener.name", "PLAINTEXT"),
            ("listeners", &listeners),
            ("advertised.listeners", &advertised),
            ("listener.security.protocol.map", &protocols),
            ("log.dirs", &data.to_string_lossy()),
            ("auto.create.topics.enable", "false"),
            ("offsets.topic.replication.factor", "1"),
            ("offsets.topic.num.partitions", "1"),
            ("transaction.state.log.replication.factor", "1"),
            ("transaction.state.log.min.isr", "1"),
            ("transaction.state.log.num.partitions", "1"),
            ("share.coordinator.state.topic.replication.factor", "1"),
            ("share.coordinator.state.topic.min.isr", "1"),
            ("num.network.threads", "2"),
            ("num.io.threads", "4"),
            ("background.threads", "2"),
            ("group.initial.rebalance.delay.ms", "0"),
            // Alone as it is, it need not wait for others, nor until its former self is forgotten.
            ("controller.quorum.election.timeout.ms", "100"),
            ("controller.quorum.election.backoff.max.ms", "100"),
            ("broker.heartbeat.interval.ms", "250"),
            ("broker.session.timeout.ms", "2000"),
        ];
        let mut text = String::new();
        let given = self.settings.iter();
        let given = given.map(|(name, value)| (name.as_str(), value.as_str()));
        // The last of a name wins.
        for (name, value) in ours.into_iter().chain(given) {
            let value = value.replace('\\', "\\\\").replace('\n', "\\n");
            let _ = writeln!(text, "{name}={value}");
        }
        self.write("server.properties", &text)
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.private.dir().join(name);
        fs::write(&path, text).map_err(Error::doing(format!("writing {}", path.display())))
    }
}

fn times_started(log: &Path) -> usize {
    let log = fs::read_to_string(log).unwrap_or_default();
    log.matches(STARTED).count()
}
