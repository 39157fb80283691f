//! Opening a connection to PostgreSQL, with TLS where the address asks for it.

use std::str::FromStr;
use std::time::Duration;

use tokio_postgres::{Client, Config, Connection, Socket};
#[cfg(not(feature = "tls"))]
use tokio_postgres::{NoTls, config::SslMode};

use super::link::classify;
use crate::store::StoreError;

#[cfg(feature = "tls")]
pub(super) type Connector = tokio_postgres_rustls::MakeRustlsConnect;
#[cfg(not(feature = "tls"))]
pub(super) type Connector = NoTls;

#[cfg(feature = "tls")]
type Stream = <Connector as tokio_postgres::tls::MakeTlsConnect<Socket>>::Stream;
#[cfg(not(feature = "tls"))]
type Stream = tokio_postgres::tls::NoTlsStream;

/// What an address says, with what it leaves open.
pub(super) fn config(address: &str) -> Result<Config, StoreError> {
    let mut config = Config::from_str(address)
        // The address may hold a password: say what is wrong, not what was given.
        .map_err(|error| {
            StoreError::Settings(format!("the database address is not valid: {error}"))
        })?;
    if config.get_application_name().is_none() {
        config.application_name("posthaste");
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(Duration::from_secs(5));
    }
    // So that a server that is gone is noticed within half a minute, unless the address wants it otherwise.
    let untouched = Config::new();
    if config.get_keepalives_idle() == untouched.get_keepalives_idle() {
        config.keepalives_idle(Duration::from_secs(10));
    }
    if config.get_keepalives_interval().is_none() {
        config.keepalives_interval(Duration::from_secs(5));
    }
    if config.get_keepalives_retries().is_none() {
        config.keepalives_retries(3);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(Duration::from_secs(20));
    }
    Ok(config)
}

/// A connection of its own, for what is done once, such as migrations.
pub(crate) async fn client(address: &str) -> Result<Client, StoreError> {
    let (client, connection) = open(&config(address)?, &connector()?).await?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection ended");
        }
    });
    Ok(client)
}

/// Trusts what the system trusts.
#[cfg(feature = "tls")]
pub(super) fn connector() -> Result<Connector, StoreError> {
    use rustls::{ClientConfig, RootCertStore};

    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| StoreError::Settings(format!("TLS cannot be set up: {error}")))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Connector::new(config))
}

#[cfg(not(feature = "tls"))]
pub(super) fn connector() -> Result<Connector, StoreError> {
    Ok(NoTls)
}

pub(super) async fn open(
    config: &Config,
    connector: &Connector,
) -> Result<(Client, Connection<Socket, Stream>), StoreError> {
    #[cfg(not(feature = "tls"))]
    if config.get_ssl_mode() == SslMode::Require {
        return Err(StoreError::Settings(
            "sslmode=require needs the feature `tls` of posthaste".to_owned(),
        ));
    }
    config.connect(connector.clone()).await.map_err(classify)
}
