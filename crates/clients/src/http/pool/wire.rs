//! Byte streams of connections, plain or encrypted, with the time of the last read.

use std::io::{self, IoSlice, Read as _};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// A connection, plain or encrypted, or encrypted twice through an encrypted proxy.
pub(super) enum Wire {
    Plain(TcpStream),
    Tls(Box<TlsStream<Wire>>),
}

impl Wire {
    /// Whether the server selected HTTP/2 during the TLS handshake.
    pub(super) fn has_chosen_http2(&self) -> bool {
        matches!(self, Self::Tls(stream) if stream.get_ref().1.alpn_protocol() == Some(b"h2"))
    }

    /// Whether the connection is open and has no unread data. Unread data is lost, except TLS messages such as the
    /// session tickets that a server sends after the handshake (RFC 8446, 4.6.1).
    fn is_quiet(&mut self) -> bool {
        self.read_now(&mut [0; 1]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Reads available bytes from the system now, without waiting for the next poll of the runtime.
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

/// Reads the available bytes of a wire.
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

/// Reads the bytes that the runtime knew about at its last poll.
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

/// The most interim (1xx) responses to one request. Servers send none, or a few.
const MOST_INTERIM: u32 = 100;

/// A server sent more than [`MOST_INTERIM`] interim responses.
#[derive(Debug, thiserror::Error)]
#[error("the server sent more than {MOST_INTERIM} interim (1xx) responses")]
pub(in crate::http) struct TooManyInterim;

/// The time of the last read from a wire. Every part of an answer that was returned arrived with that read or earlier.
#[derive(Debug, Clone)]
pub(super) struct Reads {
    from: Instant,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    nanos: AtomicU64,
    /// The number of interim responses to the request.
    interim: AtomicU32,
    /// Whether the connection is between two requests.
    is_idle: AtomicBool,
}

impl Reads {
    fn start() -> Self {
        Self { from: Instant::now(), state: Arc::default() }
    }

    /// The time of the last read.
    pub(super) fn last(&self) -> Instant {
        self.from + Duration::from_nanos(self.state.nanos.load(Ordering::Relaxed))
    }

    /// Sets whether the connection is idle, so that no data should arrive.
    pub(super) fn set_idle(&self, is_idle: bool) {
        self.state.is_idle.store(is_idle, Ordering::Relaxed);
    }

    /// A request is sent, and none of its interim responses has arrived.
    pub(super) fn expect_response(&self) {
        self.state.interim.store(0, Ordering::Relaxed);
    }

    /// Counts an interim response.
    pub(super) fn count_interim(&self) {
        self.state.interim.fetch_add(1, Ordering::Relaxed);
    }

    /// Fails after too many interim responses.
    fn check_interim(&self) -> io::Result<()> {
        let is_flood = self.state.interim.load(Ordering::Relaxed) > MOST_INTERIM;
        if is_flood { Err(io::Error::other(TooManyInterim)) } else { Ok(()) }
    }

    fn stamp(&self) {
        let nanos = u64::try_from(self.from.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.state.nanos.store(nanos, Ordering::Relaxed);
    }
}

/// A wire that records the time of its last read.
pub(super) struct TimedWire {
    wire: TokioIo<Wire>,
    reads: Reads,
}

impl TimedWire {
    pub(super) fn new(wire: Wire) -> Self {
        Self { wire: TokioIo::new(wire), reads: Reads::start() }
    }

    pub(super) fn reads(&self) -> Reads {
        self.reads.clone()
    }
}

impl Read for TimedWire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        if self.reads.state.is_idle.load(Ordering::Relaxed) {
            // After data between two requests, the connection cannot be used for another one.
            return if self.wire.inner_mut().is_quiet() { Poll::Pending } else { Poll::Ready(Ok(())) };
        }
        self.reads.check_interim()?;
        let read = Pin::new(&mut self.wire).poll_read(cx, buffer);
        if read.is_ready() {
            self.reads.stamp();
        }
        read
    }
}

impl Write for TimedWire {
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
