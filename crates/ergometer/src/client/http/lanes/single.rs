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
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{self, SendRequest};

use super::tally::Open;
use super::wire::{Reads, Stamped, Wire};

/// One connection.
pub(super) struct Lane {
    sender: SendRequest<Full<Bytes>>,
    /// Works while it is polled; `None` once it has come to its end.
    work: Option<Box<http1::Connection<Stamped, Full<Bytes>>>>,
    reads: Reads,
    _open: Open,
}

impl Lane {
    pub(super) async fn new(wire: Wire, open: Open) -> hyper::Result<Self> {
        let wire = Stamped::new(wire);
        let reads = wire.reads();
        let (sender, work) = http1::Builder::new().handshake(wire).await?;
        Ok(Self { sender, work: Some(Box::new(work)), reads, _open: open })
    }

    /// Whether a request can be sent on it: a server may have closed it while it lay idle.
    pub(super) fn is_usable(&mut self) -> bool {
        self.reads.set_idle(true);
        self.advance(&mut Context::from_waker(Waker::noop()));
        self.reads.set_idle(false);
        self.work.is_some() && self.sender.is_ready()
    }

    /// When its last read was.
    pub(super) fn read_at(&self) -> Instant {
        self.reads.last()
    }

    /// Does what can be done now.
    fn advance(&mut self, cx: &mut Context<'_>) {
        // Its errors reach whoever waits for the answer, and there they are told.
        if let Some(work) = &mut self.work
            && Pin::new(work.as_mut()).poll(cx).is_ready()
        {
            self.work = None;
        }
    }

    /// Sends a request; returns once the head of the answer is there.
    pub(super) async fn send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>> {
        let mut head = pin!(self.sender.send_request(request));
        poll_fn(|cx| {
            if let Some(work) = &mut self.work
                && Pin::new(work.as_mut()).poll(cx).is_ready()
            {
                self.work = None;
            }
            head.as_mut().poll(cx)
        })
        .await
    }

    /// The next part of the body of its answer.
    pub(super) fn poll_part(
        &mut self,
        body: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Bytes>>> {
        loop {
            self.advance(cx);
            match Pin::new(&mut *body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    // What is no data is a trailer.
                    if let Ok(bytes) = frame.into_data() {
                        return Poll::Ready(Some(Ok(bytes)));
                    }
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}
