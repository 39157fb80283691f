//! TLS: whom to trust, and what to show. Brings its own cryptography, so that nothing depends on what
//! else the process has set up.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

/// What a client shows to a server, as PEM.
pub(crate) struct Certificate {
    pub(crate) chain: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

/// Trusts what the system trusts, and these authorities (PEM).
pub(crate) fn config(
    authorities: &[Vec<u8>],
    certificate: Option<&Certificate>,
) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for pem in authorities {
        let mut found = 0;
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let read = certificate.map_err(|error| error.to_string());
            read.and_then(|one| roots.add(one).map_err(|error| error.to_string()))
                .map_err(|why| format!("the certificate authority cannot be read: {why}"))?;
            found += 1;
        }
        if found == 0 {
            return Err("the certificate authority has no certificate in it".to_owned());
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be set up: {error}"))?
        .with_root_certificates(roots);
    match certificate {
        None => Ok(config.with_no_client_auth()),
        Some(Certificate { chain, key }) => {
            let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
            let chain =
                chain.map_err(|error| format!("the certificate cannot be read: {error}"))?;
            let key = PrivateKeyDer::from_pem_slice(key)
                .map_err(|_| "the certificate's key cannot be read".to_owned())?;
            config
                .with_client_auth_cert(chain, key)
                .map_err(|error| format!("the certificate cannot be used: {error}"))
        }
    }
}
