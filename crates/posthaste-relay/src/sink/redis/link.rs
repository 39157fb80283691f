//! Connections to the server: TCP or TLS, logged in, with what the server takes.
//!
//! There are several, as Redis reads a few kilobytes of each before it writes its append-only file and waits for the
//! disk, once for all of them. With one connection that wait would be for some twenty events
//! (docs/decisions/0018-redis.md).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use ::redis::{AsyncConnectionConfig, Cmd, RedisConnectionInfo, RedisResult, Value};
use futures_util::future::join_all;
use posthaste::Event;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use super::answer::told;
use crate::sink::link::Link;

/// What a server takes unless it is set up otherwise (`proto-max-bulk-len`).
const LONGEST: usize = 512 * 1024 * 1024;
/// How many commands may wait to be written, so that a burst does not wait for the one that writes.
const QUEUE: usize = 1024;
/// How much is written at once.
const WRITE: usize = 128 * 1024;
/// As many events in a row share a connection: what is sent together is written together.
const NEIGHBOURS: u64 = 64;
/// A connection over which nothing went for so long is used by the system itself. What stands in between forgets
/// those that rest, mostly after four minutes or more, and then swallows what comes.
const REST: Duration = Duration::from_secs(60);

/// Where a server is, and how to get in.
pub(super) struct Place {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) tls: Option<Arc<rustls::ClientConfig>>,
    pub(super) login: RedisConnectionInfo,
    pub(super) connect_timeout: Duration,
}

/// All connections of a sink. They are made together, and replaced together once one of them broke: what befell it
/// may well have befallen the others, only that nobody has asked them yet.
pub(super) struct Connections(Vec<Connection>);

impl Connections {
    pub(super) async fn open(place: &Place, number: usize) -> Result<Self, String> {
        let all = (0..number).map(|_| Connection::open(place));
        let (opened, refused): (Vec<_>, Vec<_>) =
            join_all(all).await.into_iter().partition(Result::is_ok);
        // A server may have room for some of them only.
        match refused.into_iter().find_map(Result::err) {
            Some(why) if opened.is_empty() => Err(why),
            _ => Ok(Self(opened.into_iter().flatten().collect())),
        }
    }

    /// The one that an event goes over.
    pub(super) fn of(&self, event: &Event) -> &Connection {
        let turn = event.sequence.unsigned_abs() / NEIGHBOURS;
        &self.0[(turn % self.0.len() as u64) as usize]
    }
}

impl Link for Connections {
    fn is_alive(&self) -> bool {
        self.0.iter().all(|one| !one.driver.is_finished())
    }
}

/// A connection that many use at the same time. Answers come in the order of the commands.
pub(super) struct Connection {
    connection: MultiplexedConnection,
    /// Writes and reads; ends once the connection is closed.
    driver: JoinHandle<()>,
    /// How many bytes a value may have.
    pub(super) longest: usize,
}

impl Connection {
    pub(super) async fn open(place: &Place) -> Result<Self, String> {
        let opened = tokio::time::timeout(place.connect_timeout, dial(place)).await;
        let why = match opened {
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(why)) => why,
            Err(_) => format!("no answer within {:?}", place.connect_timeout),
        };
        Err(format!("cannot connect to {place}: {why}"))
    }

    /// Sends a command, and waits for its answer.
    pub(super) async fn ask(&self, command: &Cmd) -> RedisResult<Value> {
        self.connection.clone().send_packed_command(command).await
    }

    /// Ends it: all that wait for an answer get an error.
    pub(super) fn cut(&self) {
        self.driver.abort();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.cut();
    }
}

async fn dial(place: &Place) -> Result<Connection, String> {
    let stream = TcpStream::connect((&*place.host, place.port))
        .await
        .map_err(|error| error.to_string())?;
    stream
        .set_nodelay(true)
        .and_then(|()| {
            SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(REST))
        })
        .map_err(|error| error.to_string())?;
    let config = AsyncConnectionConfig::new()
        .set_response_timeout(None)
        .set_pipeline_buffer_size(QUEUE)
        .set_write_backpressure_boundary(WRITE);
    let (connection, driver) = match &place.tls {
        None => log_in(place, stream, config).await?,
        Some(tls) => {
            let name =
                ServerName::try_from(place.host.clone()).map_err(|error| error.to_string())?;
            let stream = TlsConnector::from(tls.clone()).connect(name, stream).await;
            let stream = stream.map_err(|error| format!("TLS failed: {error}"))?;
            log_in(place, stream, config).await?
        }
    };
    let mut opened = Connection {
        connection,
        driver,
        longest: LONGEST,
    };
    opened.longest = longest(&opened).await?;
    Ok(opened)
}

async fn log_in<S>(
    place: &Place,
    stream: S,
    config: AsyncConnectionConfig,
) -> Result<(MultiplexedConnection, JoinHandle<()>), String>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (connection, driver) = MultiplexedConnection::new_with_config(&place.login, stream, config)
        .await
        .map_err(|error| told(&error))?;
    Ok((connection, tokio::spawn(driver)))
}

/// Asks how long a value may be. Whoever may not ask gets the usual.
async fn longest(connection: &Connection) -> Result<usize, String> {
    let mut ask = Cmd::new();
    ask.arg("CONFIG").arg("GET").arg("proto-max-bulk-len");
    let answer = connection.ask(&ask).await.map_err(|error| told(&error))?;
    match answer {
        Value::ServerError(error) if error.code() == "NOAUTH" => Err(told(&error.into())),
        answer => {
            let found: Option<Vec<String>> = ::redis::from_redis_value(answer).ok();
            let found = found.and_then(|found| found.get(1)?.parse().ok());
            Ok(found.unwrap_or(LONGEST))
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}
