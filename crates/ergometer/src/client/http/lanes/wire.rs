//! The bytes of a connection, plain or encrypted, and when the last of them came.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// A connection, plain or encrypted; through an encrypted proxy it may be encrypted twice.
pub(super) enum Wire {
    Plain(TcpStream),
    Tls(Box<TlsStream<Wire>>),
}

impl Wire {
    /// Whether the server has chosen HTTP/2 while the encryption was agreed on.
    pub(super) fn has_chosen_http2(&self) -> bool {
        matches!(self, Self::Tls(stream) if stream.get_ref().1.alpn_protocol() == Some(b"h2"))
    }

    /// Whether it is open and nothing has come on it that was not read.
    #[cfg(unix)]
    fn is_quiet(&self) -> bool {
        use rustix::net::{RecvFlags, recv};
        match self {
            Self::Plain(stream) => {
                let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
                recv(stream, &mut [0_u8; 1], flags).is_err_and(|error| error == rustix::io::Errno::AGAIN)
            }
            Self::Tls(stream) => stream.get_ref().0.is_quiet(),
        }
    }

    #[cfg(not(unix))]
    fn is_quiet(&self) -> bool {
        true
    }
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

impl Connection for Wire {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

/// When bytes were last read from a wire. Any part of an answer that is handed out has come with that read or before it,
/// however many parts one read brought.
#[derive(Debug, Clone)]
pub(super) struct Reads {
    from: Instant,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    nanos: AtomicU64,
    /// Whether the system is asked, as it is between two requests.
    is_idle: AtomicBool,
}

impl Reads {
    fn start() -> Self {
        Self { from: Instant::now(), state: Arc::default() }
    }

    /// When the last one was.
    pub(super) fn last(&self) -> Instant {
        self.from + Duration::from_nanos(self.state.nanos.load(Ordering::Relaxed))
    }

    /// Says whether nothing should come now.
    pub(super) fn set_idle(&self, is_idle: bool) {
        self.state.is_idle.store(is_idle, Ordering::Relaxed);
    }

    fn stamp(&self) {
        let nanos = u64::try_from(self.from.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.state.nanos.store(nanos, Ordering::Relaxed);
    }
}

/// A wire that keeps the time of its last read.
pub(super) struct Stamped {
    wire: TokioIo<Wire>,
    reads: Reads,
}

impl Stamped {
    pub(super) fn new(wire: Wire) -> Self {
        Self { wire: TokioIo::new(wire), reads: Reads::start() }
    }

    pub(super) fn reads(&self) -> Reads {
        self.reads.clone()
    }
}

impl Read for Stamped {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        if self.reads.state.is_idle.load(Ordering::Relaxed) {
            // The runtime hears of a closed connection when it next asks the system; we ask now. What comes between two
            // requests, if it is not the end, is nothing a next one can follow.
            return if self.wire.inner().is_quiet() { Poll::Pending } else { Poll::Ready(Ok(())) };
        }
        let read = Pin::new(&mut self.wire).poll_read(cx, buffer);
        if read.is_ready() {
            self.reads.stamp();
        }
        read
    }
}

impl Write for Stamped {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.wire).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.wire.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.wire).poll_write_vectored(cx, slices)
    }
}
