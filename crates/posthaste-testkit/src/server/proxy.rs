//! A network in front of a server that can break: black holes, cuts, answers that get lost.

use super::{Error, Result};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// Passes connections on to a server on 127.0.0.1, until it is told otherwise. It stops listening when it is
/// dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    network: Arc<Network>,
}

#[derive(Debug, Default)]
struct Network {
    state: Mutex<State>,
    healed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Nothing gets through, and nobody is told.
    is_hole: bool,
    /// The next answer is lost, and its connection with it.
    loses_an_answer: bool,
    /// Both ends of each.
    connections: Vec<[TcpStream; 2]>,
    is_over: bool,
}

impl Proxy {
    /// In front of the server at this port.
    pub fn start(server: u16) -> Result<Self> {
        let listener =
            TcpListener::bind(("127.0.0.1", 0)).map_err(Error::doing("listening as a proxy"))?;
        let port = listener
            .local_addr()
            .map_err(Error::doing("listening as a proxy"))?
            .port();
        let network = Arc::new(Network::default());
        let shared = network.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if shared.state().is_over {
                    return;
                }
                // A server that is down is a connection that ends at once.
                if let Ok(server) = TcpStream::connect(("127.0.0.1", server)) {
                    shared.clone().join(client, server);
                }
            }
        });
        Ok(Self { port, network })
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on nothing gets through, in either direction. Connections stay open.
    pub fn hole(&self) {
        self.network.state().is_hole = true;
    }

    /// All gets through again, and what was held up as well.
    pub fn heal(&self) {
        self.network.state().is_hole = false;
        self.network.healed.notify_all();
    }

    /// Cuts every connection that there is.
    pub fn cut(&self) {
        for ends in self.network.state().connections.drain(..) {
            for end in ends {
                let _ = end.shutdown(Shutdown::Both);
            }
        }
    }

    /// The next answer that comes is lost, and its connection is cut: the server has done what it was
    /// asked to, and the client will never know.
    pub fn lose_an_answer(&self) {
        self.network.state().loses_an_answer = true;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.network.state().is_over = true;
        self.heal();
        self.cut();
        // Wakes up whoever listens.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Network {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("not poisoned")
    }

    fn join(self: Arc<Self>, client: TcpStream, server: TcpStream) {
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let ends = || Some([client.try_clone().ok()?, server.try_clone().ok()?]);
        let (Some([from_client, to_server]), Some([to_client, from_server]), Some(both)) =
            (ends(), ends(), ends())
        else {
            return;
        };
        self.state().connections.push(both);
        let there = self.clone();
        thread::spawn(move || there.pass(from_client, to_server, false));
        thread::spawn(move || self.pass(from_server, to_client, true));
    }

    fn pass(&self, mut from: TcpStream, mut to: TcpStream, is_answer: bool) {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(size @ 1..) = from.read(&mut buffer) {
            let mut state = self.state();
            while state.is_hole {
                state = self.healed.wait(state).expect("not poisoned");
            }
            if is_answer && std::mem::take(&mut state.loses_an_answer) {
                break;
            }
            drop(state);
            if to.write_all(&buffer[..size]).is_err() {
                break;
            }
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    }
}
