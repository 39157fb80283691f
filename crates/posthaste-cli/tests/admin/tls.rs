//! TLS: nothing but TLS is spoken once there is a certificate, and cookies are for TLS only.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::client::{Ask, Told};
use crate::scene::{STDOUT, Scene};

/// A connection on which these protocols are offered.
fn connected(
    address: &str,
    authority: &str,
    protocols: &[&[u8]],
) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots
        .add(rustls::pki_types::CertificateDer::from_pem_slice(authority.as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|it| it.to_vec()).collect();
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    StreamOwned::new(connection, TcpStream::connect(address).unwrap())
}

fn over_tls(ask: &Ask, address: &str, authority: &str) -> Told {
    let mut stream = connected(address, authority, &[]);
    stream.write_all(ask.text().as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    Told::read(&answer)
}

/// Gives the scene a certificate, and tells it.
fn certify(scene: &Scene) -> String {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let pem = certified.cert.pem();
    std::fs::write(scene.file("cert.pem"), &pem).unwrap();
    std::fs::write(scene.file("key.pem"), certified.signing_key.serialize_pem()).unwrap();
    let tls = "cert_file = \"cert.pem\"\nkey_file = \"key.pem\"\ntokens_file = \"tokens\"";
    scene.configure(tls, "", STDOUT);
    pem
}

#[test]
fn who_agrees_on_http_2_and_does_not_speak_it_is_let_go() {
    let scene = Scene::sqlite();
    let pem = certify(&scene);
    let daemon = scene.begin();
    // All of the greeting but its end.
    for said in [&b"PRI * HTTP/2.0\r\n\r\nSM"[..], b""] {
        let mut stream = connected(&daemon.address, &pem, &[b"h2"]);
        let patience = Some(std::time::Duration::from_secs(60));
        stream.sock.set_read_timeout(patience).unwrap();
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).unwrap();
        }
        assert_eq!(stream.conn.alpn_protocol(), Some(&b"h2"[..]));
        stream.write_all(said).unwrap();
        let ended = stream.read_to_end(&mut Vec::new());
        let kind = ended.map_err(|error| error.kind());
        assert_ne!(kind, Err(ErrorKind::WouldBlock), "it is waited for");
    }
}

#[test]
fn with_a_certificate_only_tls_is_spoken() {
    let scene = Scene::sqlite();
    let pem = certify(&scene);
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
