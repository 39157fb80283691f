//! TLS: a private authority, HTTP/2, and certificates of clients.

use std::sync::Arc;
use std::time::Duration;

use posthaste_relay::sink::http::HttpBuilder;
use posthaste_relay::sink::{Http, Outcome};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use crate::endpoint::*;

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for this name, and its key.
    fn certificate(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// A server that shows a certificate for localhost.
    async fn endpoint(&self, protocols: &[&str], clients: Option<&Self>) -> Endpoint {
        let (certificate, key) = self.certificate("localhost");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap();
        let config = match clients {
            None => config.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                let pem = authority.pem();
                roots
                    .add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap())
                    .unwrap();
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                config.with_client_cert_verifier(verifier.unwrap())
            }
        };
        let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let mut config = config.with_single_cert(chain, key).unwrap();
        config.alpn_protocols = protocols
            .iter()
            .map(|name| name.as_bytes().to_vec())
            .collect();
        let tls = TlsAcceptor::from(Arc::new(config));
        Endpoint::at(
            "127.0.0.1:0".parse().unwrap(),
            |_| (Duration::ZERO, status(204)),
            Some(tls),
        )
        .await
    }
}

/// The endpoint by its name.
fn by_name(endpoint: &Endpoint) -> HttpBuilder {
    let port = endpoint.address.port();
    Http::builder(format!("https://localhost:{port}/")).allow("localhost")
}

#[tokio::test]
async fn a_certificate_for_another_name_is_not_accepted() {
    let authority = Authority::new();
    let endpoint = authority.endpoint(&[], None).await;
    let by_address = Http::builder(endpoint.url("/")).allow("127.0.0.0/8");
    let outcome = outcome(&by_address.trust(authority.pem()).build().unwrap()).await;
    assert!(matches!(outcome, Outcome::Unavailable(_)), "{outcome:?}");
    assert!(endpoint.calls().is_empty());
}

#[tokio::test]
async fn http_2_is_spoken_with_servers_that_offer_it() {
    let authority = Authority::new();
    for (protocols, version) in [
        (&["h2", "http/1.1"][..], http::Version::HTTP_2),
        (&["http/1.1"], http::Version::HTTP_11),
        (&[], http::Version::HTTP_11),
    ] {
        let endpoint = authority.endpoint(protocols, None).await;
        let sink = by_name(&endpoint).trust(authority.pem()).build().unwrap();
        assert_eq!(outcome(&sink).await, Outcome::Delivered);
        let call = endpoint.calls().remove(0);
        assert_eq!(call.version, version);
        let untrusting = by_name(&endpoint).build().unwrap();
        let refused = outcome(&untrusting).await;
        assert!(
            matches!(&refused, Outcome::Unavailable(why) if why.contains("certificate")),
            "{refused:?}"
        );
        assert_eq!(endpoint.calls().len(), 1);
    }
}

#[tokio::test]
async fn a_client_shows_its_certificate() {
    let (servers, clients) = (Authority::new(), Authority::new());
    let endpoint = servers.endpoint(&["h2"], Some(&clients)).await;
    let trusting = || by_name(&endpoint).trust(servers.pem());
    let (certificate, key) = clients.certificate("relay.example");
    let known = trusting()
        .client_certificate(certificate, key)
        .build()
        .unwrap();
    assert_eq!(outcome(&known).await, Outcome::Delivered);
    let unknown = trusting().build().unwrap();
    assert_ne!(outcome(&unknown).await, Outcome::Delivered);
}
