//! Reads the body of an answer in parts, each with the time of the read that completed it. The end of the answer frees
//! its connection for other requests.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use http::Response;
use hyper::body::{Body as _, Incoming};
use tokio::sync::OwnedSemaphorePermit;

use super::ConnectionPool;
use super::http1::Http1Connection;
use super::http2::Stream;
use crate::RequestError;
use crate::http::{Stage, failure};

/// An HTTP/1.1 connection that a request uses. Dropping it closes the connection.
pub(super) struct BusyConnection {
    pub(super) connection: Http1Connection,
    pub(super) pool: Arc<ConnectionPool>,
    pub(super) permit: Option<OwnedSemaphorePermit>,
}

/// The connection or stream of an answer.
pub(super) enum Carrier {
    /// `None` after the end of the answer.
    Http1(Option<Box<BusyConnection>>),
    Http2(Stream),
}

/// An answer whose head has arrived. Dropping it cancels the rest.
pub(crate) struct Answer {
    pub(crate) head: http::response::Parts,
    body: Incoming,
    carrier: Carrier,
    read_at: Instant,
}

impl Answer {
    pub(super) fn new(response: Response<Incoming>, carrier: Carrier) -> Self {
        let (head, body) = response.into_parts();
        let read_at = match &carrier {
            Carrier::Http1(Some(busy)) => busy.connection.read_at(),
            _ => Instant::now(),
        };
        Self { head, body, carrier, read_at }
    }

    /// The time of the read that completed the head or the last returned part.
    pub(crate) fn read_at(&self) -> Instant {
        self.read_at
    }

    /// The next part of the body; `None` at the end, which frees the connection for other requests.
    pub(crate) fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, RequestError>> {
        let part = match &mut self.carrier {
            Carrier::Http1(None) => return Poll::Ready(Ok(None)),
            Carrier::Http1(Some(busy)) => {
                let part = busy.connection.poll_part(&mut self.body, cx);
                self.read_at = busy.connection.read_at();
                part
            }
            Carrier::Http2(_) => {
                let part = poll_data(&mut self.body, cx, |_| {});
                self.read_at = Instant::now();
                part
            }
        };
        match part {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Ok(bytes))) => Poll::Ready(Ok(Some(bytes))),
            Poll::Ready(Some(Err(error))) => {
                self.end(false);
                Poll::Ready(Err(failure(&error, Stage::Body)))
            }
            Poll::Ready(None) => {
                self.end(true);
                Poll::Ready(Ok(None))
            }
        }
    }

    /// The next part of the body.
    pub(crate) async fn part(&mut self) -> Result<Option<Bytes>, RequestError> {
        std::future::poll_fn(|cx| self.poll_part(cx)).await
    }

    fn end(&mut self, is_complete: bool) {
        match &mut self.carrier {
            Carrier::Http1(busy) => {
                if let Some(BusyConnection { connection, pool, permit }) = busy.take().map(|busy| *busy) {
                    if is_complete {
                        pool.give_back(connection);
                    }
                    // The permit goes last, so that the next request finds the connection among the idle ones.
                    drop(permit);
                }
            }
            Carrier::Http2(stream) => stream.end(),
        }
    }
}

/// The next data of a body. `advance` drives the connection before each poll of the body.
pub(super) fn poll_data(
    body: &mut Incoming,
    cx: &mut Context<'_>,
    mut advance: impl FnMut(&mut Context<'_>),
) -> Poll<Option<hyper::Result<Bytes>>> {
    loop {
        advance(cx);
        match ready!(Pin::new(&mut *body).poll_frame(cx)) {
            // A frame without data is a trailer.
            Some(Ok(frame)) => {
                if let Ok(bytes) = frame.into_data() {
                    return Poll::Ready(Some(Ok(bytes)));
                }
            }
            Some(Err(error)) => return Poll::Ready(Some(Err(error))),
            None => return Poll::Ready(None),
        }
    }
}
