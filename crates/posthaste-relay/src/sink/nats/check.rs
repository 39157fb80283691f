//! A look at a server that publishes nothing: whether events could be delivered, and what an
//! acknowledgement would mean.

use std::time::Duration;

use async_nats::jetstream::context::{AccountErrorKind, Context, ContextBuilder};
use async_nats::jetstream::stream::{Config, StorageType};
use futures_util::TryStreamExt;

use super::link::{Connection, Place};
use crate::template::Template;

pub(super) async fn look(
    place: &Place,
    subject: &Template,
    timeout: Duration,
) -> Result<String, String> {
    let connection = Connection::open(place, timeout).await?;
    let server = connection.client.server_info();
    if !server.headers {
        return Err("the server does not support headers".to_owned());
    }
    let jetstream = ContextBuilder::new()
        .timeout(timeout / 2)
        .build(connection.client.clone());
    if let Err(error) = jetstream.query_account().await {
        return Err(match error.kind() {
            AccountErrorKind::JetStreamUnavailable => {
                "the server has no JetStream: enable it".to_owned()
            }
            AccountErrorKind::TimedOut => {
                "JetStream did not answer: may this user publish to $JS.API.> and \
                 subscribe to _INBOX.>?"
                    .to_owned()
            }
            _ => format!("JetStream cannot be used: {error}"),
        });
    }
    let streams = match subject.fixed() {
        Some(subject) => described(&stream_of(&jetstream, subject).await?),
        None => all_streams(&jetstream).await?,
    };
    Ok(format!(
        "NATS {} at {place}, messages of up to {} bytes with their headers; {streams}",
        server.version, server.max_payload
    ))
}

/// The stream that stores a subject, if it acknowledges.
async fn stream_of(jetstream: &Context, subject: &str) -> Result<Config, String> {
    let name = jetstream
        .stream_by_subject(subject)
        .await
        .map_err(|error| {
            format!("no stream is known to store subject {subject:?}, add one: {error}")
        })?;
    let stream = jetstream
        .get_stream(&name)
        .await
        .map_err(|error| format!("stream {name:?} cannot be seen: {error}"))?;
    let config = stream.cached_info().config.clone();
    if config.no_ack {
        return Err(format!(
            "stream {name:?} does not acknowledge (no_ack): nothing would ever be delivered"
        ));
    }
    if config.sealed {
        return Err(format!("stream {name:?} is sealed, and takes no messages"));
    }
    Ok(config)
}

async fn all_streams(jetstream: &Context) -> Result<String, String> {
    let streams: Result<Vec<_>, _> = jetstream.streams().try_collect().await;
    let streams = streams.map_err(|error| format!("streams cannot be listed: {error}"))?;
    let acknowledging = streams.iter().filter(|stream| !stream.config.no_ack);
    let all: Vec<String> = acknowledging
        .map(|stream| described(&stream.config))
        .collect();
    match all.is_empty() {
        true => Err("there is no stream yet that would store events: add one".to_owned()),
        false => Ok(all.join("; ")),
    }
}

/// A stream, and what an acknowledgement of it means.
fn described(config: &Config) -> String {
    let Config {
        name,
        subjects,
        num_replicas,
        ..
    } = config;
    let subjects = subjects.join(", ");
    let limit = match config.max_message_size {
        size @ 1.. => format!(", messages of up to {size} bytes"),
        _ => String::new(),
    };
    let window = config.duplicate_window.as_secs();
    let meaning = match (config.storage, num_replicas) {
        (StorageType::Memory, 0..=1) => {
            "an acknowledged event is in the memory of one server, and lost with it".to_owned()
        }
        (StorageType::Memory, count) => {
            format!("an acknowledged event is in the memory of most of {count} servers")
        }
        (StorageType::File, 0..=1) => {
            "an acknowledged event is in a file of one server, on its disk after sync_interval"
                .to_owned()
        }
        (StorageType::File, count) => format!(
            "an acknowledged event is in files of most of {count} servers, on their disks after \
             sync_interval"
        ),
    };
    format!("stream {name} ({subjects}{limit}) knows duplicates for {window} s: {meaning}")
}
