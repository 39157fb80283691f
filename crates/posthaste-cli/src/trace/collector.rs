//! The collector: one post for each batch of spans, over the TLS that everything here uses.
//!
//! That it cannot be reached is told once, and once more when it can be again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use opentelemetry_http::{HttpClient, HttpError};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::runtime::Handle;

use crate::config::Tracing;

/// For name, connection and TLS.
const CONNECT: Duration = Duration::from_secs(5);
/// More than any answer has.
const LONGEST_ANSWER: usize = 64 * 1024;

/// Posts batches. Asked from a thread that is none of the runtime's, it works there all the same.
#[derive(Debug)]
pub(super) struct Collector {
    client: reqwest::Client,
    headers: Vec<(HeaderName, HeaderValue)>,
    runtime: Handle,
    endpoint: String,
    is_away: AtomicBool,
}

impl Collector {
    pub(super) fn new(tracing: &Tracing, runtime: Handle) -> Result<Self, String> {
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls(tracing)?)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT)
            .timeout(tracing.timeout)
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self {
            client,
            headers: tracing.headers.clone(),
            runtime,
            endpoint: tracing.endpoint.clone(),
            is_away: AtomicBool::new(false),
        })
    }

    fn note(&self, answer: &Result<Response<Bytes>, HttpError>) {
        let why = match answer {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(format!("it answered {}", answer.status())),
            Err(error) => Some(causes(&**error)),
        };
        let endpoint = &self.endpoint;
        match (&why, self.is_away.swap(why.is_some(), Ordering::Relaxed)) {
            (Some(error), false) => tracing::warn!(
                endpoint,
                error,
                "the collector does not take spans: they are dropped until it does"
            ),
            (None, true) => tracing::info!(endpoint, "the collector takes spans again"),
            _ => {}
        }
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, mut request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        // Last, so that what was configured stands above what the environment says.
        for (name, value) in &self.headers {
            request.headers_mut().insert(name, value.clone());
        }
        let request = reqwest::Request::try_from(request)?;
        let sending = self.runtime.spawn(send(self.client.clone(), request));
        let answer = match sending.await {
            Ok(answer) => answer.map_err(|error| error.without_url().into()),
            Err(error) => Err(error.into()),
        };
        self.note(&answer);
        answer
    }
}

async fn send(
    client: reqwest::Client,
    request: reqwest::Request,
) -> Result<Response<Bytes>, reqwest::Error> {
    let mut answer = client.execute(request).await?;
    let (status, headers) = (answer.status(), answer.headers().clone());
    let mut body = BytesMut::new();
    while let Some(chunk) = answer.chunk().await?
        && body.len() + chunk.len() <= LONGEST_ANSWER
    {
        body.extend_from_slice(&chunk);
    }
    Ok(response(status, headers, body.freeze()))
}

fn response(status: StatusCode, headers: http::HeaderMap, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// Trusts what the system trusts, and the authorities of the configuration.
fn tls(tracing: &Tracing) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(file) = &tracing.ca_file {
        let cannot = |why: String| format!("{} cannot be used: {why}", file.display());
        let certificates = CertificateDer::pem_file_iter(file);
        let certificates = certificates.map_err(|error| cannot(error.to_string()))?;
        let before = roots.len();
        for certificate in certificates {
            let certificate = certificate.map_err(|error| cannot(error.to_string()))?;
            let added = roots.add(certificate);
            added.map_err(|error| cannot(error.to_string()))?;
        }
        if roots.len() == before {
            return Err(cannot("it has no certificate in it".to_owned()));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// What went wrong, with what it came from: the outermost alone says too little.
fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut told = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !told.contains(&inner_text) {
            told = format!("{told}: {inner_text}");
        }
        source = inner.source();
    }
    told
}
