//! A network between a client and a server, with faults: it can be cut, and it can go silent.

use super::{Error, Result};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

/// Passes connections on to a server, until it is told otherwise.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    network: Arc<Network>,
}

#[derive(Debug, Default)]
struct Network {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    server: Option<String>,
    silent: bool,
    /// How many bytes of answers may still pass.
    allowance: Option<usize>,
    connections: Vec<TcpStream>,
}

impl Proxy {
    /// Listens on a free port of 127.0.0.1. It leads nowhere yet.
    pub fn start() -> Result<Self> {
        let port = super::port::free()?;
        let listener = TcpListener::bind(("127.0.0.1", port)).map_err(Error::doing("listening"))?;
        let address = listener.local_addr().map_err(Error::doing("listening"))?;
        let network = Arc::new(Network::default());
        let accepting = network.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let network = accepting.clone();
                thread::spawn(move || network.connect(client));
            }
        });
        Ok(Self { address, network })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Leads further connections to the server at this address, `host:port`.
    pub fn lead_to(&self, server: impl Into<String>) {
        self.network.state().server = Some(server.into());
    }

    /// Nothing passes any more, in either direction, and nobody is told: connections stay open, new
    /// ones are accepted.
    pub fn silence(&self) {
        self.network.state().silent = true;
    }

    /// All passes again, also what was held back.
    pub fn mend(&self) {
        let mut state = self.network.state();
        (state.silent, state.allowance) = (false, None);
        self.network.changed.notify_all();
    }

    /// Cuts all connections there are. New ones may be made.
    pub fn cut(&self) {
        self.network.state().cut();
    }

    /// Cuts all connections once this many more bytes have come from the server.
    pub fn cut_after(&self, bytes: usize) {
        self.network.state().allowance = Some(bytes);
    }
}

impl State {
    fn cut(&mut self) {
        for connection in self.connections.drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

impl Network {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("not poisoned")
    }

    /// Waits while the network is silent.
    fn passable(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        while state.silent {
            state = self.changed.wait(state).expect("not poisoned");
        }
        state
    }

    fn connect(self: Arc<Self>, client: TcpStream) {
        let server = self.passable().server.clone();
        let Some(server) = server.and_then(|server| TcpStream::connect(server).ok()) else {
            return;
        };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let ends = || Ok::<_, std::io::Error>((client.try_clone()?, server.try_clone()?));
        let (Ok(kept), Ok(there), Ok(back)) = (ends(), ends(), ends()) else {
            return;
        };
        self.state().connections.extend([kept.0, kept.1]);
        let asking = self.clone();
        thread::spawn(move || asking.pass(there.0, there.1, false));
        self.pass(back.1, back.0, true);
    }

    fn pass(&self, mut from: TcpStream, mut to: TcpStream, answers: bool) {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(size @ 1..) = from.read(&mut buffer) {
            let mut state = self.passable();
            let mut passing = size;
            if let Some(left) = state.allowance.as_mut().filter(|_| answers) {
                passing = size.min(*left);
                *left -= passing;
                if passing < size {
                    state.allowance = None;
                    state.cut();
                }
            }
            drop(state);
            if to.write_all(&buffer[..passing]).is_err() || passing < size {
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }
}
