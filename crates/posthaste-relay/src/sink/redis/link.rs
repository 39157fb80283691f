//! Connections to the server: TCP or TLS, logged in, with what the server takes.
//!
//! There are several, as Redis reads a few kilobytes of each before it writes its append-only file and waits for the
//! disk, once for all of them. With one connection that wait would be for some twenty events
//! (docs/decisions/0018-redis.md).

use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use ::redis::aio::MultiplexedConnection;
use ::redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use ::redis::{AsyncConnectionConfig, Cmd, RedisConnectionInfo, RedisResult, Value};
use futures_util::future::join_all;
use posthaste::Event;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
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
/// What a server says that has no room for another connection (`maxclients`), before it is asked anything: Redis, and
/// others of its kind. What stands in between may just hang up.
const FULL: [&str; 2] = ["max number of clients", "max concurrent connections"];
/// What one says that takes no connections from elsewhere as long as it has no password (`protected-mode`).
const PROTECTED: &str = "-DENIED";
/// A first answer that is longer is none of Redis.
const LONGEST_LINE: usize = 1024;

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

/// Why there is no connection.
pub(super) struct NoConnection {
    why: String,
    /// The server has no room for it.
    is_full: bool,
}

impl Connections {
    /// All of them, or as many as the server has room for.
    pub(super) async fn open(place: &Place, number: usize) -> Result<Self, String> {
        let (mut opened, mut full) = (Vec::new(), None);
        for one in join_all((0..number).map(|_| Connection::open(place))).await {
            match one {
                Ok(connection) => opened.push(connection),
                Err(none) if none.is_full => full = Some(none.why),
                // It may pass, and what is missing would be missing until one of the others breaks.
                Err(none) => return Err(none.why),
            }
        }
        match full {
            Some(why) if opened.is_empty() => return Err(why),
            Some(why) => {
                let connections = opened.len();
                tracing::warn!(connections, wanted = number, "fewer connections: {why}");
            }
            None => {}
        }
        Ok(Self(opened))
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
    pub(super) async fn open(place: &Place) -> Result<Self, NoConnection> {
        let opened = match tokio::time::timeout(place.connect_timeout, dial(place)).await {
            Ok(opened) => opened,
            Err(_) => Err(format!("no answer within {:?}", place.connect_timeout).into()),
        };
        opened.map_err(|NoConnection { why, is_full }| NoConnection {
            why: format!("cannot connect to {place}: {why}"),
            is_full,
        })
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

async fn dial(place: &Place) -> Result<Connection, NoConnection> {
    let stream = TcpStream::connect((&*place.host, place.port)).await?;
    stream.set_nodelay(true)?;
    SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(REST))?;
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
            log_in(place, stream.map_err(no_tls)?, config).await?
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

/// A server without room closes the connection, and can say nothing before the handshake.
fn no_tls(error: io::Error) -> NoConnection {
    let NoConnection { why, is_full } = error.into();
    let why = format!("TLS failed: {why}");
    NoConnection { why, is_full }
}

async fn log_in<S>(
    place: &Place,
    mut stream: S,
    config: AsyncConnectionConfig,
) -> Result<(MultiplexedConnection, JoinHandle<()>), NoConnection>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    ask_for_room(&mut stream).await?;
    let (connection, driver) = MultiplexedConnection::new_with_config(&place.login, stream, config)
        .await
        .map_err(|error| told(&error))?;
    Ok((connection, tokio::spawn(driver)))
}

/// Hears whether the server has no room. The client would take that for an answer about the password.
async fn ask_for_room<S>(stream: &mut S) -> Result<(), NoConnection>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    // What it said before it closed the connection can be read all the same.
    let asked = stream.write_all(b"*1\r\n$4\r\nPING\r\n").await;
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        if stream.read_buf(&mut line).await? == 0 || line.len() > LONGEST_LINE {
            asked?;
            return Err(NoConnection {
                why: "it was closed at once".to_owned(),
                is_full: true,
            });
        }
    }
    let line = String::from_utf8_lossy(&line);
    let is_full = FULL.iter().any(|full| line.contains(full));
    if is_full || line.starts_with(PROTECTED) {
        let why = line.trim_start_matches('-').trim_end().to_owned();
        return Err(NoConnection { why, is_full });
    }
    // Whoever has to log in first, or may not ask, goes on.
    Ok(())
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

impl From<String> for NoConnection {
    fn from(why: String) -> Self {
        let is_full = false;
        Self { why, is_full }
    }
}

impl From<io::Error> for NoConnection {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        Self {
            why: error.to_string(),
            is_full: matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof),
        }
    }
}

impl From<NoConnection> for String {
    fn from(none: NoConnection) -> Self {
        none.why
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_a_server_says_before_it_hangs_up_is_told() {
        let full = "ERR max number of clients reached";
        let protected = "DENIED Redis is running in protected mode because ...";
        for (said, why) in [
            (format!("-{full}\r\n"), Some((full, true))),
            (format!("-{protected}\r\n"), Some((protected, false))),
            ("-NOAUTH Authentication required.\r\n".to_owned(), None),
            ("+PONG\r\n".to_owned(), None),
            (String::new(), Some(("it was closed at once", true))),
        ] {
            let (mut ours, mut theirs) = tokio::io::duplex(256);
            theirs.write_all(said.as_bytes()).await.unwrap();
            theirs.shutdown().await.unwrap();
            let heard = ask_for_room(&mut ours).await.err();
            let heard = heard.map(|none| (none.why, none.is_full));
            assert_eq!(heard, why.map(|(why, is_full)| (why.to_owned(), is_full)));
        }
    }
}
