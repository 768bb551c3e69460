//! A socket that is written to once in a turn of its connection.
//!
//! HTTP/2 writes after each frame of some size, and where writes share a group many answers are ready at once, each of
//! some frames. A system call for each of them costs the server, and the client that is woken for it, more than to encode
//! the answer. So while a connection is corked, small writes gather here:
//!
//! ```text
//!   streams ──► HTTP/2 ──► TLS ──► gather ──────────────────────────────► socket
//!                                    │ a piece of LARGE bytes goes straight ▲
//!                                    └──── the end of a turn, or full ──────┘
//! ```
//!
//! The end of a turn: the connection has been polled, tasks that were ready beside it have run, and it has been polled
//! again.
//!
//! # Invariants
//! - Bytes leave in the order in which they came.
//! - What is gathered leaves at the end of the turn, whatever else happens: [`Turns`] sees to it for as long as the
//!   connection runs, and from then on the socket is not corked any more.
//! - An idle connection holds no buffer.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Buf, BytesMut};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// Bytes that gather. Full: they are written at once, and whoever writes waits for the socket.
const GATHER_BYTES_MAX: usize = 64 * 1024;
/// Pieces of this size are not worth a copy. A TLS record is smaller: to copy four of them costs less than four system
/// calls, each of which wakes the client.
const LARGE_BYTES: usize = 32 * 1024;
/// From pieces of this size on more like them are expected, and room for all is made at once.
const RECORD_BYTES: usize = 8 * 1024;

/// The half that TLS writes to and reads from.
#[derive(Clone, Debug)]
pub(super) struct Corked(Arc<Mutex<Cork>>);

/// A connection that is polled in turns.
#[derive(Debug)]
pub(super) struct Turns<C> {
    connection: Pin<Box<C>>,
    socket: Corked,
}

#[derive(Debug)]
struct Cork {
    stream: TcpStream,
    gathered: BytesMut,
    /// Writes gather.
    corked: bool,
    /// The other tasks that were ready have had their turn since something gathered.
    waited: bool,
}

// === impl Corked ===

impl Corked {
    /// A socket that is not corked yet.
    pub(super) fn new(stream: TcpStream) -> Self {
        Self(Arc::new(Mutex::new(Cork {
            stream,
            gathered: BytesMut::new(),
            corked: false,
            waited: false,
        })))
    }
}

impl AsyncRead for Corked {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.lock().stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Corked {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.lock().write(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.lock().write(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut cork = self.0.lock();
        if cork.corked {
            // The end of the turn does it.
            return Poll::Ready(Ok(()));
        }
        cork.drain(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut cork = self.0.lock();
        ready!(cork.drain(cx))?;
        Pin::new(&mut cork.stream).poll_shutdown(cx)
    }
}

// === impl Cork ===

impl Cork {
    fn write(&mut self, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let len = bufs.iter().map(|buf| buf.len()).sum::<usize>();
        if !self.corked || len >= LARGE_BYTES || self.room() == 0 {
            ready!(self.drain(cx))?;
        }
        if !self.corked || len >= LARGE_BYTES {
            return Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        }
        let before = self.gathered.len();
        if len >= RECORD_BYTES && self.gathered.capacity() < GATHER_BYTES_MAX {
            self.gathered.reserve(self.room());
        }
        for buf in bufs {
            let (taken, _) = buf.split_at(buf.len().min(self.room()));
            self.gathered.extend_from_slice(taken);
        }
        Poll::Ready(Ok(self.gathered.len().saturating_sub(before)))
    }

    /// Bytes that may gather still.
    fn room(&self) -> usize {
        GATHER_BYTES_MAX.saturating_sub(self.gathered.len())
    }

    /// Writes all that has gathered.
    fn drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.gathered.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.gathered))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.gathered.advance(written);
        }
        self.waited = false;
        // Frees its memory, which an idle connection does not need.
        self.gathered = BytesMut::new();
        Poll::Ready(Ok(()))
    }

    /// The connection has been polled: lets others run that may add to what has gathered, then writes it.
    fn turn(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        if !self.waited {
            self.waited = true;
            cx.waker().wake_by_ref();
            return Ok(());
        }
        match self.drain(cx) {
            Poll::Ready(drained) => drained,
            // The socket wakes the connection.
            Poll::Pending => Ok(()),
        }
    }
}

// === impl Turns ===

impl<C> Turns<C> {
    /// Corks `socket`, which `connection` writes to, for as long as it runs.
    pub(super) fn new(connection: C, socket: Corked) -> Self {
        socket.0.lock().corked = true;
        Self {
            connection: Box::pin(connection),
            socket,
        }
    }

    /// The connection itself.
    pub(super) fn connection(&mut self) -> Pin<&mut C> {
        self.connection.as_mut()
    }
}

impl<C, E> Future for Turns<C>
where
    C: Future<Output = Result<(), E>>,
    E: From<io::Error>,
{
    type Output = Result<(), E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let ended = self.connection.as_mut().poll(cx);
        let mut cork = self.socket.0.lock();
        if ended.is_ready() {
            cork.corked = false;
            // What the socket does not take now is written by whoever took it over, or is lost with the connection.
            let _drained = cork.drain(cx);
            return ended;
        }
        cork.turn(cx)?;
        Poll::Pending
    }
}

#[cfg(test)]
mod tests;
