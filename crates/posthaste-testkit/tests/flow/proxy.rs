//! A network between relays and their database that can lose answers.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Passes connections on to a server, until it is told to lose an answer.
pub(crate) struct Proxy {
    /// The address of the database, through it.
    pub(crate) url: String,
    losing: Arc<watch::Sender<u64>>,
}

impl Proxy {
    /// In front of the database at this address, `postgres://postgres@host:port/name`.
    pub(crate) async fn start(url: &str) -> Self {
        let (start, rest) = url.split_once('@').unwrap();
        let (server, name) = rest.split_once('/').unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let ours = listener.local_addr().unwrap();
        let losing = Arc::new(watch::Sender::new(0));
        let (server, told) = (server.to_owned(), losing.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (server, told) = (server.clone(), told.subscribe());
                tokio::spawn(async move {
                    if let Ok(server) = TcpStream::connect(server).await {
                        pass(client, server, told).await;
                    }
                });
            }
        });
        Self {
            url: format!("{start}@{ours}/{name}"),
            losing,
        }
    }

    /// From now on, every connection that there is loses the next answer that comes, and breaks:
    /// the server has done what it was asked to, and the client will never know.
    pub(crate) fn lose_answers(&self) {
        self.losing.send_modify(|times| *times += 1);
    }
}

async fn pass(client: TcpStream, server: TcpStream, told: watch::Receiver<u64>) {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    // Whichever ends first ends the connection.
    tokio::select! {
        () = copy(from_client, to_server) => {}
        () = copy_until_told(from_server, to_client, told) => {}
    }
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let _ = tokio::io::copy(&mut from, &mut to).await;
}

async fn copy_until_told(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut told: watch::Receiver<u64>,
) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let Ok(size @ 1..) = from.read(&mut buffer).await else {
            return;
        };
        if told.has_changed().unwrap_or(true) {
            told.mark_unchanged();
            return;
        }
        if to.write_all(&buffer[..size]).await.is_err() {
            return;
        }
    }
}
