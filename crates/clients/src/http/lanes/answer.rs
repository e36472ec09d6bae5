//! An answer whose head is there: its parts come out, each with the time of the read that brought it, and at its end its
//! connection is left to others.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use http::Response;
use hyper::body::{Body as _, Incoming};
use tokio::sync::OwnedSemaphorePermit;

use super::Lanes;
use super::shared::Stream;
use super::single::Lane;
use crate::RequestError;
use crate::http::{Stage, failure};

/// A lane in use. When it is dropped it closes.
pub(super) struct Taken {
    pub(super) lane: Lane,
    pub(super) lanes: Arc<Lanes>,
    pub(super) room: Option<OwnedSemaphorePermit>,
}

/// What an answer comes on.
pub(super) enum Carrier {
    /// `None` once the answer has come to its end.
    Lane(Option<Box<Taken>>),
    Stream(Stream),
}

/// An answer whose head is there. To drop it gives the rest up.
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
            Carrier::Lane(Some(taken)) => taken.lane.read_at(),
            _ => Instant::now(),
        };
        Self { head, body, carrier, read_at }
    }

    /// When what was last handed out was read: its head, or a part.
    pub(crate) fn read_at(&self) -> Instant {
        self.read_at
    }

    /// The next part of the body, as it comes; `None` at its end, which frees its connection for others.
    pub(crate) fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, RequestError>> {
        let part = match &mut self.carrier {
            Carrier::Lane(None) => return Poll::Ready(Ok(None)),
            Carrier::Lane(Some(taken)) => {
                let part = taken.lane.poll_part(&mut self.body, cx);
                self.read_at = taken.lane.read_at();
                part
            }
            Carrier::Stream(_) => {
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

    fn end(&mut self, is_well: bool) {
        match &mut self.carrier {
            Carrier::Lane(taken) => {
                if let Some(Taken { lane, lanes, room }) = taken.take().map(|taken| *taken) {
                    if is_well {
                        lanes.give_back(lane);
                    }
                    // Whoever waits for it finds the lane among the idle.
                    drop(room);
                }
            }
            Carrier::Stream(stream) => stream.end(),
        }
    }
}

/// The next data of a body. `advance` does what can be done before each look at it.
pub(super) fn poll_data(
    body: &mut Incoming,
    cx: &mut Context<'_>,
    mut advance: impl FnMut(&mut Context<'_>),
) -> Poll<Option<hyper::Result<Bytes>>> {
    loop {
        advance(cx);
        match ready!(Pin::new(&mut *body).poll_frame(cx)) {
            // What is no data is a trailer.
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
