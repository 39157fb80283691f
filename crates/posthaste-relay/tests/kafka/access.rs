//! TLS, passwords and permissions, on a server that asks for them.

use std::io::Write;
use std::sync::{LazyLock, Mutex, OnceLock};
use std::time::{Duration, Instant};

use posthaste_relay::sink::kafka::{KafkaBuilder, Mechanism};
use posthaste_relay::sink::{Kafka, Outcome, Sink};
use posthaste_testkit::server::{self, Listener, Options};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair,
    date_time_ymd,
};

use crate::cluster::*;

const PASSWORD: &str = "canary-password";
const MECHANISMS: [Mechanism; 3] = [
    Mechanism::Plain,
    Mechanism::ScramSha256,
    Mechanism::ScramSha512,
];

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = params(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for this name, and its key.
    fn certificate(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let certificate = params(name).signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new([name.to_owned()]).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2100, 1, 1));
    params
}

struct Guarded {
    server: server::Kafka,
    servers: Authority,
    clients: Authority,
}

/// A server with TLS that wants certificates, and one with TLS that wants passwords. Whoever comes
/// without either may do everything: that is for the tests themselves.
static GUARDED: LazyLock<Guarded> = LazyLock::new(|| {
    let (servers, clients) = (Authority::new("servers"), Authority::new("clients"));
    let (certificate, key) = servers.certificate("localhost");
    let users = format!("user_writer=\"{PASSWORD}\" user_stranger=\"{PASSWORD}\"");
    let login = "org.apache.kafka.common.security";
    let options = Options::new()
        .setting("ssl.keystore.type", "PEM")
        .setting("ssl.keystore.certificate.chain", certificate)
        .setting("ssl.keystore.key", key)
        .setting("ssl.truststore.type", "PEM")
        .setting("ssl.truststore.certificates", clients.pem())
        .setting("listener.name.tls.ssl.client.auth", "required")
        .setting(
            "listener.name.password.sasl.enabled.mechanisms",
            "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        )
        .setting(
            "listener.name.password.plain.sasl.jaas.config",
            format!("{login}.plain.PlainLoginModule required {users};"),
        )
        .setting(
            "listener.name.password.scram-sha-256.sasl.jaas.config",
            format!("{login}.scram.ScramLoginModule required;"),
        )
        .setting(
            "listener.name.password.scram-sha-512.sasl.jaas.config",
            format!("{login}.scram.ScramLoginModule required;"),
        )
        .setting(
            "authorizer.class.name",
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        )
        .setting("super.users", "User:ANONYMOUS;User:CN=relay.example");
    let listener = |name, protocol| Listener {
        name,
        protocol,
        advertised: None,
    };
    let listeners = [listener("TLS", "SSL"), listener("PASSWORD", "SASL_SSL")];
    let scram = ["SCRAM-SHA-256", "SCRAM-SHA-512"]
        .map(|mechanism| format!("{mechanism}=[name=writer,password={PASSWORD}]"));
    let format = ["--add-scram", &scram[0], "--add-scram", &scram[1]];
    Guarded {
        server: server::Kafka::start_with(options, &listeners, &format).unwrap(),
        servers,
        clients,
    }
});

/// The server, and a topic of one's own on it.
async fn guarded() -> (&'static Guarded, String) {
    let guarded = blocking(|| &*GUARDED).await;
    let topic = fresh_topic(&guarded.server.brokers()).await;
    (guarded, topic)
}

impl Guarded {
    /// A sink for a listener, by the name that is in the certificate.
    fn sink(&self, listener: &str, topic: &str) -> KafkaBuilder {
        let address = self.server.listener(listener).unwrap();
        let address = address.replace("127.0.0.1", "localhost");
        sink(&address, topic).timeout(Duration::from_secs(5))
    }

    async fn grant(&self, user: &str, topic: &str) {
        python(&["grant", &self.server.brokers(), user, topic]).await;
    }
}

#[track_caller]
fn assert_down(outcome: &Outcome, part: &str) {
    let Outcome::Unavailable(why) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(why.contains(part) && !why.contains("canary"), "{why}");
}

#[tokio::test]
async fn tls_with_a_private_authority_and_a_certificate_of_the_client() {
    let (guarded, topic) = guarded().await;
    let (certificate, key) = guarded.clients.certificate("relay.example");
    let trusting = || guarded.sink("TLS", &topic).trust(guarded.servers.pem());
    let known = trusting().client_certificate(&*certificate, &*key);
    let known = known.build().unwrap();
    assert_eq!(deliver(&known).await, Outcome::Delivered);
    assert!(known.check().await.unwrap().contains("1 partition"));
    let unknown = trusting().build().unwrap();
    assert_down(&deliver(&unknown).await, "SSL");
    let untrusting = guarded
        .sink("TLS", &topic)
        .client_certificate(certificate, key);
    let untrusting = untrusting.build().unwrap();
    assert_down(&deliver(&untrusting).await, "certificate verify failed");
    assert_eq!(read(&guarded.server.brokers(), &topic).await.len(), 1);
}

#[tokio::test]
async fn a_certificate_for_another_name_is_not_accepted() {
    let (guarded, topic) = guarded().await;
    let (certificate, key) = guarded.clients.certificate("relay.example");
    let by_address = sink(&guarded.server.listener("TLS").unwrap(), &topic)
        .trust(guarded.servers.pem())
        .client_certificate(certificate, key);
    assert_down(&deliver(&by_address.build().unwrap()).await, "certificate");
}

#[tokio::test]
async fn passwords_are_taken_in_every_mechanism() {
    let (guarded, topic) = guarded().await;
    guarded.grant("writer", &topic).await;
    for mechanism in MECHANISMS {
        let sink = guarded
            .sink("PASSWORD", &topic)
            .trust(guarded.servers.pem());
        let sink = sink.sasl(mechanism, "writer", PASSWORD).build().unwrap();
        let event = event_of(message()).await;
        until_delivered(&sink, &event).await;
        // What may be written to need not be configured by the same user.
        let found = sink.check().await.unwrap();
        assert!(found.contains("its limits cannot be seen"), "{found}");
    }
    assert!(read(&guarded.server.brokers(), &topic).await.len() >= 3);
}

/// All that is logged, by anybody in this process.
static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Logged;

impl Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOG.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

// B13
#[tokio::test]
async fn a_wrong_password_is_told_and_is_in_nothing_that_is_told() {
    static LOGGING: OnceLock<()> = OnceLock::new();
    LOGGING.get_or_init(|| {
        let subscriber = tracing_subscriber::fmt().with_writer(|| Logged);
        subscriber.with_max_level(tracing::Level::DEBUG).init();
    });
    let (guarded, topic) = guarded().await;
    for mechanism in MECHANISMS {
        let sink = guarded
            .sink("PASSWORD", &topic)
            .trust(guarded.servers.pem());
        let sink = sink
            .sasl(mechanism, "writer", "canary-wrong")
            .property("debug", "security,broker");
        let sink: Kafka = sink.build().unwrap();
        assert_down(&deliver(&sink).await, "uthentication failed");
        let why = sink.check().await.unwrap_err();
        assert!(
            why.contains("uthentication failed") && !why.contains("canary"),
            "{why}"
        );
        assert!(!format!("{sink:?}").contains("canary"));
    }
    let log = String::from_utf8_lossy(&LOG.lock().unwrap()).into_owned();
    assert!(log.contains("uthentication failed"), "nothing was logged");
    assert!(!log.contains("canary"), "it was logged");
}

// K3: who may write nowhere is not let in at all.
#[tokio::test]
async fn a_user_without_permissions_is_told_so_and_no_event_is_blamed() {
    let (guarded, topic) = guarded().await;
    let sink = guarded
        .sink("PASSWORD", &topic)
        .trust(guarded.servers.pem());
    let sink = sink
        .sasl(Mechanism::Plain, "stranger", PASSWORD)
        .build()
        .unwrap();
    for _ in 0..2 {
        assert_down(&deliver(&sink).await, "uthoriz");
    }
    assert!(sink.check().await.unwrap_err().contains("uthoriz"));
}

// K3: found out before the first event, and nothing is left behind.
#[tokio::test]
async fn a_look_finds_out_whether_the_topic_may_be_written_to() {
    let (guarded, topic) = guarded().await;
    let brokers = guarded.server.brokers();
    // Without the right to write somewhere, it would not be let in.
    let elsewhere = fresh_topic(&brokers).await;
    guarded.grant("writer", &elsewhere).await;
    let seen = "DESCRIBE,DESCRIBE_CONFIGS";
    python(&["grant", &brokers, "writer", &topic, seen]).await;
    let sink = guarded
        .sink("PASSWORD", &topic)
        .trust(guarded.servers.pem());
    let sink = sink.sasl(Mechanism::ScramSha256, "writer", PASSWORD);
    let sink = sink.build().unwrap();
    // Rights take a moment to be known.
    let until = async |found: fn(&Result<String, String>) -> bool| {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let looked = sink.check().await;
            if found(&looked) {
                return;
            }
            assert!(Instant::now() < deadline, "{looked:?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let refused = |looked: &Result<String, String>| matches!(looked, Err(why) if why.contains("may not be written to: grant WRITE"));
    until(refused).await;
    guarded.grant("writer", &topic).await;
    let granted = |looked: &Result<String, String>| matches!(looked, Ok(found) if found.contains("this user may write to it"));
    until(granted).await;
    assert!(read(&brokers, &topic).await.is_empty(), "it left something");
}

// K3
#[tokio::test]
async fn a_topic_that_is_not_allowed_is_told_and_used_once_it_is() {
    let (guarded, name) = guarded().await;
    let brokers = guarded.server.brokers();
    for part in ["Mine", "Yours"] {
        create(&brokers, &format!("{name}.{part}"), 1, &[]).await;
    }
    guarded.grant("writer", &format!("{name}.Mine")).await;
    let sink = guarded.sink("PASSWORD", &format!("{name}.{{aggregate_type}}"));
    let sink = sink
        .trust(guarded.servers.pem())
        .sasl(Mechanism::ScramSha512, "writer", PASSWORD)
        .build()
        .unwrap();
    let mine = event_of(message().aggregate("Mine", "1")).await;
    let yours = event_of(message().aggregate("Yours", "1")).await;
    until_delivered(&sink, &mine).await;
    let outcome = sink.deliver(yours.clone()).await;
    let Outcome::Retry(why) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(
        why.contains("Yours\" is not allowed: grant WRITE and DESCRIBE"),
        "{why}"
    );
    assert_eq!(sink.deliver(mine).await, Outcome::Delivered);
    guarded.grant("writer", &format!("{name}.Yours")).await;
    until_delivered(&sink, &yours).await;
}
