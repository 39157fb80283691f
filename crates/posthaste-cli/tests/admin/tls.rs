//! TLS: nothing but TLS is spoken once there is a certificate, and cookies are for TLS only.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::client::{Ask, Told};
use crate::scene::{STDOUT, Scene};

fn over_tls(ask: &Ask, address: &str, authority: &str) -> Told {
    let mut roots = RootCertStore::empty();
    roots
        .add(rustls::pki_types::CertificateDer::from_pem_slice(authority.as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(connection, TcpStream::connect(address).unwrap());
    stream.write_all(ask.text().as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    Told::read(&answer)
}

#[test]
fn with_a_certificate_only_tls_is_spoken() {
    let scene = Scene::sqlite();
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let pem = certified.cert.pem();
    std::fs::write(scene.file("cert.pem"), &pem).unwrap();
    std::fs::write(scene.file("key.pem"), certified.signing_key.serialize_pem()).unwrap();
    let tls = "cert_file = \"cert.pem\"\nkey_file = \"key.pem\"\ntokens_file = \"tokens\"";
    scene.configure(tls, "", STDOUT);
    let daemon = scene.begin();
    daemon.says("url=\"https://127.0.0.1:");
    let me = daemon.ask("GET", "/api/v1/me").by(&scene.tokens[0]);
    let told = over_tls(&me, &daemon.address, &pem).done();
    assert_eq!(told["role"], "viewer-no-payload");
    let login = daemon
        .ask("POST", "/login")
        .form(&format!("token={}", scene.tokens[0]));
    let told = over_tls(&login, &daemon.address, &pem);
    let cookie = told.header("set-cookie").unwrap();
    assert!(
        cookie.starts_with("__Host-posthaste=") && cookie.contains("; Secure"),
        "{cookie}"
    );
    // Without TLS there is no answer at all.
    let mut answer = Vec::new();
    let _ = daemon.ask("GET", "/livez").begin().read_to_end(&mut answer);
    assert!(!String::from_utf8_lossy(&answer).contains("200 OK"));
}

#[test]
fn files_that_are_no_certificate_are_refused_at_the_start() {
    let scene = Scene::sqlite();
    std::fs::write(scene.file("cert.pem"), "nothing").unwrap();
    std::fs::write(scene.file("key.pem"), "hunter2").unwrap();
    for (admin, why) in [
        (
            "cert_file = \"cert.pem\"\nkey_file = \"key.pem\"",
            "cert.pem cannot be used for TLS",
        ),
        (
            "cert_file = \"cert.pem\"",
            "cert_file is given, and key_file is not",
        ),
    ] {
        scene.configure(admin, "", STDOUT);
        let output = scene.command(&["run"]).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(why) && !told.contains("hunter2"), "{told}");
    }
}
