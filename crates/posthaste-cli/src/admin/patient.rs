//! A connection that waits for the other end so long and no longer.
//!
//! Knows nothing about HTTP.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Whoever takes nothing for so long does not read.
const UNREAD: Duration = Duration::from_secs(30);

pub(super) struct Patient<S> {
    stream: S,
    /// Until when something of what waits to be sent has to be taken.
    unread: Option<Pin<Box<Sleep>>>,
    greeting: Option<Greeting>,
}

/// How many bytes are to come yet, and until when.
struct Greeting {
    missing: usize,
    until: Pin<Box<Sleep>>,
}

impl<S: Unpin> Patient<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream,
            unread: None,
            greeting: None,
        }
    }

    /// The other end has to say so many bytes within this time.
    pub(super) fn greeted_within(mut self, time: Duration, bytes: usize) -> Self {
        self.greeting = Some(Greeting {
            missing: bytes,
            until: Box::pin(sleep(time)),
        });
        self
    }

    /// Gives a write that waits its time.
    fn wait<T>(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let written = write(Pin::new(&mut self.stream), context);
        if written.is_ready() {
            self.unread = None;
            return written;
        }
        let unread = self.unread.get_or_insert_with(|| Box::pin(sleep(UNREAD)));
        ready!(unread.as_mut().poll(context));
        Poll::Ready(Err(late("what it asked for is not read")))
    }
}

fn late(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, why)
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Some(greeting) = &mut self.greeting {
            let said = buffer.filled().len() - before;
            greeting.missing = greeting.missing.saturating_sub(said);
            if greeting.missing == 0 {
                self.greeting = None;
            } else if greeting.until.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(late("it does not say hello")));
            }
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.wait(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.wait(context, |stream, context| {
            stream.poll_write_vectored(context, bytes)
        })
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.wait(context, |stream, context| stream.poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.wait(context, |stream, context| stream.poll_shutdown(context))
    }
}
