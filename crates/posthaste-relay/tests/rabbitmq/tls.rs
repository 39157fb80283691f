//! TLS, with a private authority, and certificates of clients.

use std::sync::LazyLock;

use posthaste_relay::sink::rabbitmq::RabbitMqBuilder;
use posthaste_relay::sink::{Outcome, RabbitMq};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use crate::place::*;

pub(crate) static AUTHORITY: LazyLock<Authority> = LazyLock::new(Authority::new);

pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Erlang takes a certificate for self-signed whose name is that of its authority.
        let name = &mut params.distinguished_name;
        name.push(DnType::CommonName, "authority");
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for this name, and its key.
    pub(crate) fn certificate(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

fn at(host: &str, port: u16, place: &Place) -> RabbitMqBuilder {
    RabbitMq::builder(
        format!("amqps://guest:guest@{host}:{port}/%2f"),
        &place.name,
    )
}

// F9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_trusted_by_its_authority_and_name_and_trusts_us_by_ours() {
    let server = mortal().await;
    let place = Place::at(server.url()).await;
    let port = server.tls_port();
    let (certificate, key) = AUTHORITY.certificate("relay.example");
    let known = |host| {
        at(host, port, &place)
            .trust(AUTHORITY.pem())
            .client_certificate(certificate.clone(), key.clone())
    };
    let good = known("localhost").build().unwrap();
    assert_eq!(outcome(&good).await, Outcome::Delivered);

    let stranger = Authority::new();
    let (foreign, foreign_key) = stranger.certificate("relay.example");
    for (builder, what) in [
        (known("127.0.0.1"), "a certificate for another name"),
        (
            at("localhost", port, &place).client_certificate(certificate.clone(), key.clone()),
            "an authority that we do not know",
        ),
        (
            at("localhost", port, &place).trust(AUTHORITY.pem()),
            "no certificate of ours",
        ),
        (
            at("localhost", port, &place)
                .trust(AUTHORITY.pem())
                .client_certificate(foreign, foreign_key),
            "a certificate of an authority that the server does not know",
        ),
        (
            at("localhost", server.port(), &place).trust(AUTHORITY.pem()),
            "a port without TLS",
        ),
    ] {
        let sink = builder.build().unwrap();
        let outcome = outcome(&sink).await;
        assert!(
            matches!(outcome, Outcome::Unavailable(_)),
            "{what}: {outcome:?}"
        );
    }
    assert_eq!(place.ids().await.len(), 1);
}
