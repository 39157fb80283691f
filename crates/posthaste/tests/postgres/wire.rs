//! What a driver sends to the server, counted on the wire by a proxy in between.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

const SSL_REQUEST: u32 = 80_877_103;

/// A proxy in front of the server, and how many messages of each kind went through it.
pub struct Wire {
    /// The address to connect to.
    pub url: String,
    counts: Arc<Mutex<BTreeMap<u8, usize>>>,
}

impl Wire {
    pub async fn to(url: &str) -> Self {
        let config: tokio_postgres::Config = url.parse().expect("an address");
        let [tokio_postgres::config::Host::Tcp(host), ..] = config.get_hosts() else {
            panic!("the tests connect over TCP");
        };
        let server = (host.clone(), config.get_ports()[0]);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let here = listener.local_addr().expect("bound").to_string();
        let there = format!("{}:{}", server.0, server.1);
        assert!(url.contains(&there), "{url} names {there}");
        let counts = Arc::new(Mutex::new(BTreeMap::new()));
        let counted = counts.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&server).await.expect("the server");
                let (mut answers, to_server) = server.into_split();
                let (from_client, mut to_client) = client.into_split();
                tokio::spawn(async move { copy(&mut answers, &mut to_client).await });
                tokio::spawn(forward(from_client, to_server, counted.clone()));
            }
        });
        Self {
            url: url.replace(&there, &here),
            counts,
        }
    }

    /// How many statements were executed since this was last asked.
    pub fn statements(&self) -> usize {
        let counts = std::mem::take(&mut *self.counts.lock().expect("not poisoned"));
        [b'E', b'Q']
            .iter()
            .filter_map(|kind| counts.get(kind))
            .sum()
    }
}

async fn forward(
    mut client: OwnedReadHalf,
    mut server: OwnedWriteHalf,
    counts: Arc<Mutex<BTreeMap<u8, usize>>>,
) -> std::io::Result<()> {
    // A connection starts with messages that have no kind.
    loop {
        let length = client.read_u32().await?;
        let mut body = vec![0; length as usize - 4];
        client.read_exact(&mut body).await?;
        server.write_u32(length).await?;
        server.write_all(&body).await?;
        if body[..4] != SSL_REQUEST.to_be_bytes() {
            break;
        }
    }
    loop {
        let kind = client.read_u8().await?;
        let length = client.read_u32().await?;
        let mut body = vec![0; length as usize - 4];
        client.read_exact(&mut body).await?;
        *counts
            .lock()
            .expect("not poisoned")
            .entry(kind)
            .or_default() += 1;
        server.write_u8(kind).await?;
        server.write_u32(length).await?;
        server.write_all(&body).await?;
    }
}
