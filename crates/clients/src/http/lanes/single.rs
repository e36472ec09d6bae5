//! A lane: one HTTP/1.1 connection, for one request at a time.
//!
//! No task of its own drives it: whoever waits for its answer does. So the request is written, and each part of the answer
//! read, in the task that asked, and no other thread has to wake up in between.

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
use super::wire::{Reads, Stamped, Wire};

/// One connection.
pub(super) struct Lane {
    sender: SendRequest<Full<Bytes>>,
    /// Works while it is polled; `None` once it has come to its end.
    work: Work,
    reads: Reads,
    /// Whether anything was answered on it.
    was_answered: bool,
    _open: Open,
}

/// What drives a connection.
type Work = Option<Box<http1::Connection<Stamped, Full<Bytes>>>>;

impl Lane {
    pub(super) async fn new(wire: Wire, open: Open) -> hyper::Result<Self> {
        let wire = Stamped::new(wire);
        let reads = wire.reads();
        let (sender, work) = http1::Builder::new().handshake(wire).await?;
        Ok(Self { sender, work: Some(Box::new(work)), reads, was_answered: false, _open: open })
    }

    /// Whether a request can be sent on it: a server may have closed it while it lay idle.
    pub(super) fn is_usable(&mut self) -> bool {
        self.reads.set_idle(true);
        advance(&mut self.work, &mut Context::from_waker(Waker::noop()));
        self.reads.set_idle(false);
        self.work.is_some() && self.sender.is_ready()
    }

    /// When its last read was.
    pub(super) fn read_at(&self) -> Instant {
        self.reads.last()
    }

    /// Whether anything was answered on it. One that was opened ahead may never have been of use.
    pub(super) fn was_answered(&self) -> bool {
        self.was_answered
    }

    /// Sends a request; returns once the head of the answer is there.
    pub(super) async fn send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>> {
        let mut head = pin!(self.sender.send_request(request));
        let answer = poll_fn(|cx| {
            advance(&mut self.work, cx);
            head.as_mut().poll(cx)
        })
        .await;
        self.was_answered |= answer.is_ok();
        answer
    }

    /// The next part of the body of its answer.
    pub(super) fn poll_part(
        &mut self,
        body: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Bytes>>> {
        poll_data(body, cx, |cx| advance(&mut self.work, cx))
    }
}

/// Does what can be done now.
fn advance(work: &mut Work, cx: &mut Context<'_>) {
    // Its errors reach whoever waits for the answer, and there they are told.
    if work.as_mut().is_some_and(|work| Pin::new(work.as_mut()).poll(cx).is_ready()) {
        *work = None;
    }
}
