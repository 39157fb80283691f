//! The socket under a connection, so that it can be shut down. Knows nothing of AMQP.

use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex};

/// The socket of a connection. lapin's thread reads from it for as long as it is open, also if nobody
/// wants the connection any more and the server is silent; so it is shut down when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Socket(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
pub(super) enum Kept {
    #[default]
    Nothing,
    Stream(TcpStream),
    Over,
}

impl Socket {
    /// Where to [`keep`] it, once there is one.
    pub(super) fn kept(&self) -> Arc<Mutex<Kept>> {
        self.0.clone()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let mut kept = self.0.lock().expect("not poisoned");
        if let Kept::Stream(stream) = std::mem::replace(&mut *kept, Kept::Over) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Keeps another handle of the same socket.
pub(super) fn keep(kept: &Mutex<Kept>, socket: &impl Twin) -> std::io::Result<()> {
    let twin = socket.twin()?;
    let mut kept = kept.lock().expect("not poisoned");
    match *kept {
        Kept::Over => Err(std::io::ErrorKind::TimedOut.into()),
        _ => {
            *kept = Kept::Stream(twin);
            Ok(())
        }
    }
}

pub(super) trait Twin {
    fn twin(&self) -> std::io::Result<TcpStream>;
}

#[cfg(unix)]
impl<S: std::os::fd::AsFd> Twin for S {
    fn twin(&self) -> std::io::Result<TcpStream> {
        Ok(self.as_fd().try_clone_to_owned()?.into())
    }
}

#[cfg(windows)]
impl<S: std::os::windows::io::AsSocket> Twin for S {
    fn twin(&self) -> std::io::Result<TcpStream> {
        Ok(self.as_socket().try_clone_to_owned()?.into())
    }
}
