//! The server: listens, speaks TLS if told to, and ends within a moment when asked to.
//!
//! Knows nothing about routes.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower_service::Service as _;

use super::auth::Peer;
use super::limit::Places;
use super::patient::Patient;
use crate::failure::Failure;

/// Connections at the same time, those that watch included.
const CONNECTIONS: usize = 256;
/// As many of them from one host: whoever takes all it can get leaves room for probes and others.
const EACH: usize = 64;
/// To say hello, and to ask.
const PATIENCE: Duration = Duration::from_secs(10);
/// How HTTP/2 begins: who has not said so much has not said hello.
const PREFACE: usize = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();
/// What is under way when the server ends gets this long.
const GRACE: Duration = Duration::from_secs(2);

/// An address that is ours, and who answers there.
pub(super) struct Listener {
    tcp: TcpListener,
    tls: Option<TlsAcceptor>,
}

impl Listener {
    pub(super) async fn bind(
        address: SocketAddr,
        tls: Option<&(impl AsRef<Path>, impl AsRef<Path>)>,
    ) -> Result<Self, Failure> {
        let tls = match tls {
            None => None,
            Some((cert, key)) => Some(acceptor(cert.as_ref(), key.as_ref())?),
        };
        let tcp = TcpListener::bind(address).await.map_err(|error| {
            let why = match error.kind() {
                io::ErrorKind::AddrInUse => "another process listens there".to_owned(),
                _ => error.to_string(),
            };
            Failure::Other(format!(
                "cannot listen on {address}: {why}. Set listen under [admin] to another address"
            ))
        })?;
        Ok(Self { tcp, tls })
    }

    /// Such as `http://127.0.0.1:7411`.
    pub(super) fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let address = self.tcp.local_addr().map(|it| it.to_string());
        format!("{scheme}://{}", address.unwrap_or_default())
    }

    /// Answers until it is to end.
    pub(super) async fn serve(self, router: Router, mut end: watch::Receiver<bool>) {
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let peers = Places::new(EACH);
        let mut connections = JoinSet::new();
        loop {
            let place = places.clone().acquire_owned();
            let (stream, peer, place) = tokio::select! {
                accepted = accept(&self.tcp, place) => accepted,
                _ = end.wait_for(|end| *end) => break,
            };
            while connections.try_join_next().is_some() {}
            let Some(one_of_few) = peers.take(Peer::new(peer.ip())) else {
                tracing::debug!(%peer, "has too many connections");
                continue;
            };
            let connection = answer(stream, peer, self.tls.clone(), router.clone(), end.clone());
            connections.spawn(async move {
                connection.await;
                drop((place, one_of_few));
            });
        }
        drop(self.tcp);
        let done = async { while connections.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(GRACE, done).await;
        connections.shutdown().await;
    }
}

async fn accept(
    tcp: &TcpListener,
    place: impl Future<Output = Result<OwnedSemaphorePermit, tokio::sync::AcquireError>>,
) -> (TcpStream, SocketAddr, OwnedSemaphorePermit) {
    let place = place.await.expect("never closed");
    loop {
        match tcp.accept().await {
            Ok((stream, peer)) => return (stream, peer, place),
            Err(error) => {
                // Out of files, perhaps: others have to close theirs first.
                tracing::warn!("a connection was not accepted: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn answer(
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<TlsAcceptor>,
    router: Router,
    end: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    match tls {
        None => speak(stream, Spoken::Http1, peer, router, end).await,
        Some(tls) => match tokio::time::timeout(PATIENCE, tls.accept(stream)).await {
            Ok(Ok(stream)) => {
                let spoken = match stream.get_ref().1.alpn_protocol() {
                    Some(b"h2") => Spoken::Http2,
                    _ => Spoken::Http1,
                };
                speak(stream, spoken, peer, router, end).await;
            }
            Ok(Err(error)) => tracing::debug!(%peer, "no TLS: {error}"),
            Err(_) => tracing::debug!(%peer, "no TLS in time"),
        },
    }
}

/// Which HTTP is spoken. It is never guessed from the first bytes: who sends none would be waited
/// for without end.
#[derive(Clone, Copy)]
enum Spoken {
    Http1,
    Http2,
}

async fn speak(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    spoken: Spoken,
    peer: SocketAddr,
    router: Router,
    mut end: watch::Receiver<bool>,
) {
    let service =
        hyper::service::service_fn(move |request: http::Request<hyper::body::Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(Peer::new(peer.ip()));
            router.clone().call(request)
        });
    let builder = Builder::new(TokioExecutor::new());
    let mut builder = match spoken {
        Spoken::Http1 => builder.http1_only(),
        Spoken::Http2 => builder.http2_only(),
    };
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(64)
        .keep_alive_interval(PATIENCE);
    let stream = match spoken {
        Spoken::Http1 => Patient::new(stream),
        // Of its beginning HTTP/1 keeps the time itself.
        Spoken::Http2 => Patient::new(stream).greeted_within(PATIENCE, PREFACE),
    };
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => Some(ended),
        _ = end.wait_for(|end| *end) => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, "a connection broke: {error}");
    }
}

fn acceptor(cert: &Path, key: &Path) -> Result<TlsAcceptor, Failure> {
    let refuse = |file: &Path, why: &dyn std::fmt::Display| {
        Failure::usage(format!("{} cannot be used for TLS: {why}", file.display()))
    };
    let chain = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| refuse(cert, &error))?;
    if chain.is_empty() {
        return Err(refuse(cert, &"there is no certificate in it"));
    }
    let secret = PrivateKeyDer::from_pem_file(key)
        .map_err(|_| refuse(key, &"there is no private key in it that can be read"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| refuse(cert, &error))?
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(|error| refuse(cert, &error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
