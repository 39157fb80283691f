//! Connections: made within a time, with the exchange looked at, and let go of for good.

use std::collections::HashSet;
use std::fmt;
use std::pin::Pin;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions};
use lapin::tcp::RustlsConnector;
use lapin::types::{FieldTable, ShortString};
use lapin::uri::AMQPUri;
use lapin::{
    AsyncTcpStream, BasicProperties, Channel, Connection, ConnectionProperties, ErrorKind, Event,
    ExchangeKind,
};

use super::message::Writer;
use super::refusal::{Refusal, told};
use super::socket::{Socket, keep};

/// What is shorter is in any text by chance.
const SECRET: usize = 4;
/// How often a look tries to write, if it does not get to know why it may not.
const TRIALS: usize = 5;

/// A server and an exchange of it, and how to write to it.
pub(super) struct Post {
    pub(super) uri: AMQPUri,
    pub(super) tls: Option<RustlsConnector>,
    pub(super) writer: Writer,
    pub(super) exchange_type: ExchangeKind,
    pub(super) declare: bool,
    /// Exchanges that were there once. One that is deleted is left to whoever deleted it: made anew it would have
    /// no bindings.
    pub(super) known: Mutex<HashSet<String>>,
    pub(super) timeout: Duration,
    pub(super) connect_timeout: Duration,
}

/// A connection, with a channel that confirms.
pub(super) struct Link {
    pub(super) connection: Connection,
    pub(super) channel: Channel,
    /// Declared last, so that lapin may still say goodbye.
    _socket: Socket,
}

/// What happens to a connection.
pub(super) type Events = Pin<Box<dyn Stream<Item = Event> + Send>>;

/// Why an exchange cannot be used: because of itself, or of the connection.
pub(super) enum NoExchange {
    Refused(String),
    Broken(String),
}

impl Post {
    /// Whether all events go to the same exchange.
    pub(super) fn has_one_exchange(&self) -> bool {
        self.one_exchange().is_some()
    }

    fn one_exchange(&self) -> Option<&str> {
        match &self.writer.exchange {
            Some(template) => template.fixed(),
            None => Some(""),
        }
    }

    /// Connects, and looks at the exchange, if it is the same for all events.
    pub(super) async fn connect(&self) -> Result<(Link, Events), String> {
        let patience = self.connect_timeout;
        let connecting = async {
            let link = self.open().await?;
            let events = link.connection.events_listener().boxed();
            match self.one_exchange() {
                None => Ok((link, events)),
                Some(exchange) => match self.find(&link, exchange).await {
                    Ok(()) => Ok((link, events)),
                    Err(NoExchange::Refused(why) | NoExchange::Broken(why)) => Err(why),
                },
            }
        };
        match tokio::time::timeout(patience, connecting).await {
            Ok(connected) => connected.map_err(|why| self.hide(&why)),
            Err(_) => Err(format!(
                "cannot connect: the server said nothing for {patience:?}"
            )),
        }
    }

    async fn open(&self) -> Result<Link, String> {
        let cannot = |error: lapin::Error| format!("cannot connect: {}", told(&error));
        let socket = Socket::default();
        let (kept, tls, patience) = (socket.kept(), self.tls.clone(), self.connect_timeout);
        let runtime = lapin::runtime::default_runtime().map_err(cannot)?;
        let properties = ConnectionProperties::default()
            .with_connection_name("posthaste".into())
            .with_client_property("product".into(), "posthaste".into())
            .with_client_property("version".into(), env!("CARGO_PKG_VERSION").into());
        let connecting = Connection::connector(
            self.uri.clone(),
            runtime,
            // In a thread of lapin's, which waits as long as its socket does.
            async move |uri, runtime| {
                let host = &uri.authority.host;
                let dialling = async {
                    let place = runtime.to_socket_addrs((host.clone(), uri.authority.port));
                    let stream = AsyncTcpStream::connect(&runtime, place).await?;
                    if let AsyncTcpStream::Plain(plain) = &stream {
                        keep(&kept, plain.get_ref())?;
                    }
                    match &tls {
                        Some(tls) => stream.into_rustls(tls, host).await,
                        None => Ok(stream),
                    }
                };
                match tokio::time::timeout(patience, dialling).await {
                    Ok(dialled) => dialled.map_err(lapin::Error::from),
                    Err(_) => Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
                }
            },
            properties,
        );
        let connection = connecting.await.map_err(cannot)?;
        let channel = confirming(&connection).await.map_err(cannot)?;
        Ok(Link {
            connection,
            channel,
            _socket: socket,
        })
    }

    /// Sees to it that an exchange is there: declares it, or asks for it, if it is not to be declared or was there
    /// before. On a channel of its own, as a refusal closes it.
    pub(super) async fn find(&self, link: &Link, exchange: &str) -> Result<(), NoExchange> {
        if exchange.is_empty() {
            return Ok(());
        }
        let passive = !self.declare || self.is_known(exchange);
        self.declare(link, exchange, passive).await?;
        let mut known = self.known.lock().expect("not poisoned");
        known.insert(exchange.to_owned());
        Ok(())
    }

    fn is_known(&self, exchange: &str) -> bool {
        let known = self.known.lock().expect("not poisoned");
        known.contains(exchange)
    }

    async fn declare(&self, link: &Link, exchange: &str, passive: bool) -> Result<(), NoExchange> {
        let broken = |error| NoExchange::Broken(format!("the connection broke: {}", told(&error)));
        let channel = link.connection.create_channel().await.map_err(broken)?;
        let options = ExchangeDeclareOptions {
            passive,
            durable: true,
            ..ExchangeDeclareOptions::default()
        };
        let name = ShortString::try_new(exchange)
            .map_err(|error| NoExchange::Refused(error.to_string()))?;
        let declared = channel
            .exchange_declare(
                name,
                self.exchange_type.clone(),
                options,
                FieldTable::default(),
            )
            .await;
        match declared {
            Ok(()) => {
                let _ = channel.close(200, "OK".into()).await;
                Ok(())
            }
            Err(error) if Refusal::of(&error).is_some() => {
                let what = match passive {
                    true => "used",
                    false => "declared",
                };
                let why = format!(
                    "exchange {exchange:?} cannot be {what}: {}",
                    self.hide(&told(&error))
                );
                Err(NoExchange::Refused(why))
            }
            Err(error) => Err(broken(error)),
        }
    }

    /// Looks at everything that can be seen without delivering and without making anything.
    pub(super) async fn check(&self) -> Result<String, String> {
        let patience = self.connect_timeout + self.timeout;
        let looking = async {
            let link = self.open().await?;
            let found = self.look(&link).await;
            let _ = link.connection.close(200, "OK".into()).await;
            found
        };
        match tokio::time::timeout(patience, looking).await {
            Ok(looked) => looked.map_err(|why| self.hide(&why)),
            Err(_) => Err(format!("the server did not answer within {patience:?}")),
        }
    }

    async fn look(&self, link: &Link) -> Result<String, String> {
        let words = |(NoExchange::Refused(why) | NoExchange::Broken(why))| why;
        let mut is_there = true;
        let exchange = match (self.one_exchange(), &self.writer.exchange) {
            (Some(""), _) => "the default exchange leads to queues by their names".to_owned(),
            (Some(exchange), _) => match self.declare(link, exchange, true).await {
                // Also of the type that it should be.
                Ok(()) if self.declare => {
                    self.declare(link, exchange, false).await.map_err(words)?;
                    format!("exchange {exchange:?} is there as it should be")
                }
                Ok(()) => format!("exchange {exchange:?} is there"),
                Err(NoExchange::Refused(_)) if self.declare && !self.is_known(exchange) => {
                    is_there = false;
                    format!("exchange {exchange:?} is not there yet: the first event declares it")
                }
                Err(why) => return Err(words(why)),
            },
            (None, template) => format!(
                "exchanges {} are looked at when events go there",
                template.as_ref().map_or(String::new(), ToString::to_string)
            ),
        };
        let user = &self.uri.authority.userinfo.username;
        let right = match self.one_exchange().filter(|_| is_there) {
            Some(exchange) => {
                self.try_writing(link, exchange).await.map_err(words)?;
                format!("{user} may write there; max_message_size shows")
            }
            None => format!("whether {user} may write there, and max_message_size, show"),
        };
        Ok(format!(
            "connected to {self}; {exchange}; {right} with the first events; an acknowledgement means that all \
             queues bound for the message have it: durable ones on disk, quorum queues on most of their servers, \
             others in memory"
        ))
    }

    /// Publishes in a transaction, and takes it back: the server has looked whether it is allowed, and nobody
    /// gets anything.
    async fn try_writing(&self, link: &Link, exchange: &str) -> Result<(), NoExchange> {
        let broken = |error| NoExchange::Broken(format!("the connection broke: {}", told(&error)));
        let short = |text: &str| {
            ShortString::try_new(text).map_err(|error| NoExchange::Refused(error.to_string()))
        };
        let key = self.writer.routing_key.fixed();
        let (name, routing_key) = (short(exchange)?, short(key.unwrap_or_default())?);
        let mut tried = trial(&link.connection, &name, &routing_key).await;
        for _ in 1..TRIALS {
            // The server was so quick to close the channel that nothing waited to be told why.
            match &tried {
                Err(error) if matches!(error.kind(), ErrorKind::InvalidChannelState(..)) => {
                    tried = trial(&link.connection, &name, &routing_key).await;
                }
                _ => break,
            }
        }
        match tried {
            Ok(()) => Ok(()),
            Err(error) if Refusal::of(&error).is_some() => {
                let said = self.hide(&told(&error));
                // Rights may differ by routing key, and that of events is another.
                if key.is_none() && said.contains("topic") {
                    return Ok(());
                }
                let why = format!("exchange {exchange:?} may not be written to: {said}");
                Err(NoExchange::Refused(why))
            }
            Err(error) if matches!(error.kind(), ErrorKind::InvalidChannelState(..)) => {
                let why = format!(
                    "exchange {exchange:?} may not be written to: the server closed the channel"
                );
                Err(NoExchange::Refused(why))
            }
            Err(error) => Err(broken(error)),
        }
    }

    /// A text without the password.
    fn hide(&self, text: &str) -> String {
        let password = &self.uri.authority.userinfo.password;
        match password.len() >= SECRET && *password != self.uri.authority.userinfo.username {
            true => text.replace(password.as_str(), "***"),
            false => text.to_owned(),
        }
    }
}

impl Link {
    /// Another channel in place of one that was closed.
    pub(super) async fn replace_channel(&mut self) -> lapin::Result<()> {
        self.channel = confirming(&self.connection).await?;
        Ok(())
    }

    /// Says goodbye, but does not wait long for an answer.
    pub(super) async fn close(self, patience: Duration) {
        let closing = self.connection.close(200, "OK".into());
        let _ = tokio::time::timeout(patience, closing).await;
    }
}

/// Publishes on a channel of its own, and takes it back.
async fn trial(
    connection: &Connection,
    exchange: &ShortString,
    routing_key: &ShortString,
) -> lapin::Result<()> {
    let channel = connection.create_channel().await?;
    channel.tx_select().await?;
    let (options, properties) = (BasicPublishOptions::default(), BasicProperties::default());
    let sent = channel.basic_publish(
        exchange.clone(),
        routing_key.clone(),
        options,
        b"",
        properties,
    );
    drop(sent.await?);
    channel.tx_rollback().await?;
    let _ = channel.close(200, "OK".into()).await;
    Ok(())
}

async fn confirming(connection: &Connection) -> lapin::Result<Channel> {
    let channel = connection.create_channel().await?;
    let confirm = channel.confirm_select(ConfirmSelectOptions::default());
    confirm.await?;
    Ok(channel)
}

/// Where it is, without secrets.
impl fmt::Display for Post {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AMQPUri {
            scheme,
            authority,
            vhost,
            ..
        } = &self.uri;
        let (user, host, port) = (
            &authority.userinfo.username,
            &authority.host,
            authority.port,
        );
        write!(f, "{scheme}://{user}@{host}:{port} vhost {vhost:?}")
    }
}
