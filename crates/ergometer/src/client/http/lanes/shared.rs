//! HTTP/2: many requests at a time on few connections, each driven by a task of its own.
//!
//! There are as many connections as the user says, each taken in turn. Where nothing was said there is one, and another as
//! soon as every one of them has as many requests as the server allows it, which is known from the second request on.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::route::{Route, no_http2};
use super::tally::Tally;
use super::{STALE_WITHIN, seconds};
use crate::client::http::{Stage, failure};
use crate::client::{FailureKind, Line, Protocol, RequestError};

/// How many requests go out on a connection before the server has said how many it takes. The number is one that no server
/// says, so another means that it has spoken.
const BEFORE_SETTINGS: usize = 97;

/// The connections.
pub(super) struct Shared {
    /// How many, where the user says so.
    most: Option<usize>,
    slots: Mutex<Vec<Arc<Slot>>>,
}

/// The place of one connection.
struct Slot {
    /// Whoever finds it empty connects, and the others wait.
    live: tokio::sync::Mutex<Option<Live>>,
    in_flight: AtomicUsize,
    /// How many requests at a time the server takes on the connection that is there.
    limit: Arc<AtomicUsize>,
}

#[derive(Clone)]
struct Live {
    sender: SendRequest<Full<Bytes>>,
    /// Whether anything was answered on it.
    was_answered: Arc<AtomicBool>,
}

/// A request's place on a connection.
pub(super) struct Stream(Option<Arc<Slot>>);

impl Stream {
    /// Leaves it to others.
    pub(super) fn end(&mut self) {
        if let Some(slot) = self.0.take() {
            slot.in_flight.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    pub(super) fn new(most: Option<usize>) -> Self {
        Self { most, slots: Mutex::default() }
    }

    /// Lets go of the connections; each ends with its last answer.
    pub(super) fn close(&self) {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Sends a request; returns once the head of the answer is there.
    pub(super) async fn send(
        &self,
        route: &Route,
        tally: &Arc<Tally>,
        request: Request<Full<Bytes>>,
        line: &mut Option<Line>,
    ) -> Result<(Response<Incoming>, Stream), RequestError> {
        let slot = self.slot();
        let stream = Stream(Some(Arc::clone(&slot)));
        let mut live = slot.live(route, tally, line).await?;
        let sent = Instant::now();
        match live.sender.send_request(request).await {
            Ok(response) => {
                live.was_answered.store(true, Ordering::Relaxed);
                Ok((response, stream))
            }
            Err(error) => {
                let error = failure(&error, Stage::Head);
                let was_answered = live.was_answered.load(Ordering::Relaxed);
                if !was_answered && slot.limit.load(Ordering::Relaxed) == BEFORE_SETTINGS {
                    let why = error.cause.rsplit_once(": ").map_or(error.cause.as_str(), |(_, why)| why);
                    return Err(no_http2(why));
                }
                let was_used = was_answered && live.sender.is_closed();
                let is_stale = was_used && error.kind == FailureKind::Disconnected && sent.elapsed() < STALE_WITHIN;
                Err(RequestError { is_stale, ..error })
            }
        }
    }

    /// The place with the fewest requests; a new one where there may be more.
    fn slot(&self) -> Arc<Slot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let least = slots.iter().min_by_key(|slot| slot.in_flight.load(Ordering::Relaxed));
        let found = least.filter(|least| match self.most {
            Some(most) => slots.len() >= most,
            None => !least.is_full(),
        });
        let slot = found.cloned().unwrap_or_else(|| {
            let slot = Arc::new(Slot {
                live: tokio::sync::Mutex::default(),
                in_flight: AtomicUsize::new(0),
                limit: Arc::new(AtomicUsize::new(BEFORE_SETTINGS)),
            });
            slots.push(Arc::clone(&slot));
            slot
        });
        slot.in_flight.fetch_add(1, Ordering::Relaxed);
        slot
    }
}

impl Slot {
    /// Whether it has as many requests as the server has said it takes.
    fn is_full(&self) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        limit != BEFORE_SETTINGS && self.in_flight.load(Ordering::Relaxed) >= limit.max(1)
    }

    async fn live(&self, route: &Route, tally: &Arc<Tally>, line: &mut Option<Line>) -> Result<Live, RequestError> {
        let mut place = self.live.lock().await;
        if let Some(live) = place.as_ref().filter(|live| !live.sender.is_closed()) {
            tally.reused();
            *line = Some(Line { protocol: Protocol::Http2, connect: None });
            return Ok(live.clone());
        }
        let started = Instant::now();
        let wire = route.connect().await?;
        route.check_http2(&wire)?;
        *line = Some(Line { protocol: Protocol::Http2, connect: Some(seconds(started.elapsed())) });
        let open = tally.opened();
        self.limit.store(BEFORE_SETTINGS, Ordering::Relaxed);
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.initial_max_send_streams(BEFORE_SETTINGS);
        let (sender, mut work) =
            builder.handshake(TokioIo::new(wire)).await.map_err(|error| failure(&error, Stage::Head))?;
        let limit = Arc::clone(&self.limit);
        tokio::spawn(async move {
            // Its errors reach whoever waits for an answer.
            let _ = std::future::poll_fn(|cx| {
                let end = Pin::new(&mut work).poll(cx);
                limit.store(work.current_max_send_streams(), Ordering::Relaxed);
                end
            })
            .await;
            drop(open);
        });
        let live = Live { sender, was_answered: Arc::default() };
        *place = Some(live.clone());
        Ok(live)
    }
}

/// The next part of the body of an answer.
pub(super) fn poll_part(body: &mut Incoming, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Bytes>>> {
    loop {
        match Pin::new(&mut *body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
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
