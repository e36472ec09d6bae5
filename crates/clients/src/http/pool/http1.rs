//! One HTTP/1.1 connection, for one request at a time.
//!
//! The task that waits for the answer also drives the connection, so that writing the request and reading the answer
//! wake no other thread.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};

use super::answer::poll_data;
use super::tally::Open;
use super::wire::{Reads, TimedWire, Wire};

/// One connection.
pub(super) struct Http1Connection {
    sender: SendRequest<Full<Bytes>>,
    /// The connection, which makes progress when polled; `None` after its end.
    work: Work,
    reads: Reads,
    /// Whether a request on it was answered.
    was_answered: bool,
    _open: Open,
}

/// The future that drives a connection.
type Work = Option<Box<http1::Connection<TimedWire, Full<Bytes>>>>;

impl Http1Connection {
    pub(super) async fn new(wire: Wire, open: Open) -> hyper::Result<Self> {
        let wire = TimedWire::new(wire);
        let reads = wire.reads();
        let (sender, work) = http1::Builder::new().handshake(wire).await?;
        Ok(Self { sender, work: Some(Box::new(work)), reads, was_answered: false, _open: open })
    }

    /// Whether a request can be sent on it: a server may have closed it while it was idle.
    pub(super) fn is_usable(&mut self) -> bool {
        self.reads.set_idle(true);
        advance(&mut self.work, &mut Context::from_waker(Waker::noop()));
        self.reads.set_idle(false);
        self.work.is_some() && self.sender.is_ready()
    }

    /// The time of the last read.
    pub(super) fn read_at(&self) -> Instant {
        self.reads.last()
    }

    /// Whether a request on it was answered. A connection opened in advance may never have worked.
    pub(super) fn was_answered(&self) -> bool {
        self.was_answered
    }

    /// Sends a request and returns when the response head has arrived.
    pub(super) async fn send(&mut self, mut request: Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>> {
        let reads = self.reads.clone();
        reads.expect_response();
        hyper::ext::on_informational(&mut request, move |_| reads.count_interim());
        let mut head = pin!(self.sender.send_request(request));
        let answer = poll_fn(|cx| {
            advance(&mut self.work, cx);
            head.as_mut().poll(cx)
        })
        .await;
        self.was_answered |= answer.is_ok();
        answer
    }

    /// The next part of the response body.
    pub(super) fn poll_part(
        &mut self,
        body: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Bytes>>> {
        poll_data(body, cx, |cx| advance(&mut self.work, cx))
    }
}

/// Makes as much progress as possible now.
fn advance(work: &mut Work, cx: &mut Context<'_>) {
    // Errors reach the task that waits for the answer.
    if work.as_mut().is_some_and(|work| Pin::new(work.as_mut()).poll(cx).is_ready()) {
        *work = None;
    }
}
