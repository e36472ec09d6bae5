//! The bytes of a connection, plain or encrypted, and when the last of them came.

use std::io::{self, IoSlice, Read as _};
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

    /// Whether it is open and nothing has come on it that was not read. What comes is lost, but for what is said between the
    /// two ends of the encryption: a server sends its tickets (RFC 8446, 4.6.1) when the client thinks that all was said.
    fn is_quiet(&mut self) -> bool {
        self.read_now(&mut [0; 1]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Reads what is there. The runtime hears of it when it next asks the system; this asks now.
    fn read_now(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let stream = match self {
            Self::Plain(stream) => return receive(stream, bytes),
            Self::Tls(stream) => stream,
        };
        let (wire, session) = stream.get_mut();
        loop {
            match session.reader().read(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
            if session.read_tls(&mut Now(wire))? == 0 {
                return Ok(0);
            }
            session.process_new_packets().map_err(io::Error::other)?;
        }
    }
}

/// What is there on a wire.
struct Now<'a>(&'a mut Wire);

impl io::Read for Now<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read_now(bytes)
    }
}

#[cfg(unix)]
fn receive(stream: &TcpStream, bytes: &mut [u8]) -> io::Result<usize> {
    let (read, _) = rustix::net::recv(stream, bytes, rustix::net::RecvFlags::DONTWAIT)?;
    Ok(read)
}

/// Here it is the runtime that knows, as of when it last asked the system.
#[cfg(not(unix))]
fn receive(stream: &TcpStream, bytes: &mut [u8]) -> io::Result<usize> {
    stream.try_read(bytes)
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
            // What comes between two requests, if it is not the end, is nothing a next one can follow.
            return if self.wire.inner_mut().is_quiet() { Poll::Pending } else { Poll::Ready(Ok(())) };
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
