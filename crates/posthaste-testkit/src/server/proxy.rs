//! A network in front of a server that can break: black holes, cuts, answers that get lost.

use super::{Error, Result};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

/// Passes connections on to a server on 127.0.0.1, until it is told otherwise. It stops listening when it
/// is dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    network: Arc<Network>,
}

#[derive(Debug, Default)]
struct Network {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    server: Option<u16>,
    /// Nothing gets through, and nobody is told.
    is_hole: bool,
    /// How many bytes of answers may still pass.
    allowance: Option<usize>,
    connections: Vec<TcpStream>,
    is_over: bool,
}

impl Proxy {
    /// In front of the server at this port.
    pub fn start(server: u16) -> Result<Self> {
        let proxy = Self::leading_nowhere()?;
        proxy.lead_to(server);
        Ok(proxy)
    }

    /// In front of a server that is yet to start.
    pub fn leading_nowhere() -> Result<Self> {
        let port = super::port::free()?;
        let listener = TcpListener::bind(("127.0.0.1", port)).map_err(Error::doing("listening"))?;
        let network = Arc::new(Network::default());
        let accepting = network.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if accepting.state().is_over {
                    return;
                }
                let network = accepting.clone();
                thread::spawn(move || network.connect(client));
            }
        });
        Ok(Self { port, network })
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Leads further connections to the server at this port.
    pub fn lead_to(&self, server: u16) {
        self.network.state().server = Some(server);
    }

    /// From now on nothing gets through, in either direction. Connections stay open, new ones are accepted.
    pub fn hole(&self) {
        self.network.state().is_hole = true;
    }

    /// All gets through again, and what was held up as well.
    pub fn heal(&self) {
        let mut state = self.network.state();
        (state.is_hole, state.allowance) = (false, None);
        self.network.changed.notify_all();
    }

    /// Cuts every connection that there is. New ones may be made.
    pub fn cut(&self) {
        self.network.state().cut();
    }

    /// Cuts every connection once this many more bytes have come from the server.
    pub fn cut_after(&self, bytes: usize) {
        self.network.state().allowance = Some(bytes);
    }

    /// The next answer that comes is lost, and connections are cut: the server has done what it was
    /// asked to, and the client will never know.
    pub fn lose_an_answer(&self) {
        self.cut_after(0);
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

    /// Waits while nothing gets through.
    fn passable(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        while state.is_hole {
            state = self.changed.wait(state).expect("not poisoned");
        }
        state
    }

    fn connect(self: Arc<Self>, client: TcpStream) {
        let server = self.passable().server;
        let Some(server) = server.and_then(|port| TcpStream::connect(("127.0.0.1", port)).ok())
        else {
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
        // That one end is gone does not get through, either.
        drop(self.passable());
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }
}
