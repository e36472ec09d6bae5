//! HTTP/2: many concurrent requests on few connections. A separate task drives each connection.
//!
//! If the user sets the number of connections, requests are spread over all of them. Otherwise there is one connection,
//! and another is opened when every existing connection has as many requests as the server allows. The server declares
//! this limit in its settings, after connecting; until then all requests use one connection.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ergometer_units::Seconds;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::route::{Route, no_http2};
use super::tally::Tally;
use super::{STALE_LIMIT, open_together, seconds};
use crate::http::{Stage, failure};
use crate::{ConnectOutcome, ConnectionUse, FailureKind, Protocol, RequestError};

/// Maximum number of concurrent requests on a connection before the settings of the server arrive. No server declares
/// this unusual number, so another value means that the settings have arrived.
const BEFORE_SETTINGS: usize = 97;

/// Timeout for the settings when connections are opened in advance. A server sends its settings with its first bytes.
const SETTINGS_TIMEOUT: Duration = Duration::from_secs(1);

/// The interval of checking whether the settings have arrived, since hyper does not notify. A round trip within one
/// machine takes less time.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The HTTP/2 connections to one server.
pub(super) struct Http2Pool {
    /// The number of connections, if the user sets it.
    most: Option<usize>,
    slots: Mutex<Vec<Arc<Slot>>>,
    server: Server,
}

/// The server of the connections.
#[derive(Clone)]
struct Server {
    route: Arc<Route>,
    tally: Arc<Tally>,
    /// Whether the server has sent HTTP/2 settings on any connection so far.
    supports_http2: Arc<AtomicBool>,
}

/// A slot for one connection.
struct Slot {
    /// The first request of an empty slot connects while it holds the lock; other requests wait for the lock.
    state: tokio::sync::Mutex<SlotState>,
    /// The number of finished attempts to connect. A request that sees it change has waited for an attempt.
    attempts: AtomicU64,
    in_flight: AtomicUsize,
    /// The maximum number of concurrent requests on the current connection.
    limit: Arc<watch::Sender<usize>>,
}

/// The connection of a slot.
#[derive(Default)]
enum SlotState {
    #[default]
    Empty,
    Connected(Http2Connection),
    /// The error of the last attempt to connect.
    Failed(RequestError),
}

#[derive(Clone)]
struct Http2Connection {
    sender: SendRequest<Full<Bytes>>,
    /// Whether any request on it was answered.
    was_answered: Arc<AtomicBool>,
    /// Whether a request was lost on it when the server closed it, and is sent again.
    was_stale: Arc<AtomicBool>,
}

/// How a request got its connection.
enum Acquisition {
    /// The connection was already open.
    Existing,
    /// Another request was opening it; the value is the waiting time.
    Awaited(Seconds),
    /// This request opened it; the value is the time to connect.
    Opened(Seconds),
}

/// A request on a connection.
pub(super) struct Stream(Option<Arc<Slot>>);

impl Stream {
    /// Ends the request, so that its connection can serve another.
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

impl Http2Pool {
    pub(super) fn new(route: Arc<Route>, tally: Arc<Tally>, most: Option<usize>) -> Self {
        Self { most, slots: Mutex::default(), server: Server { route, tally, supports_http2: Arc::default() } }
    }

    /// Drops the connections; each closes after its last answer.
    pub(super) fn close(&self) {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Sends a request and returns when the head of the answer has arrived.
    pub(super) async fn send(
        &self,
        request: Request<Full<Bytes>>,
        connection_use: &mut Option<ConnectionUse>,
    ) -> Result<(Response<Incoming>, Stream), RequestError> {
        let slot = self.take_slot();
        let stream = Stream(Some(Arc::clone(&slot)));
        let (mut connection, acquired) = slot.connection(&self.server).await?;
        let connect = match acquired {
            Acquisition::Existing => None,
            Acquisition::Awaited(length) | Acquisition::Opened(length) => Some(length),
        };
        *connection_use = Some(ConnectionUse { protocol: Protocol::Http2, connect, waited: None });
        if !matches!(acquired, Acquisition::Opened(_)) {
            self.server.tally.reused();
        }
        let sent = Instant::now();
        match connection.sender.send_request(request).await {
            Ok(response) => {
                connection.was_answered.store(true, Ordering::Relaxed);
                Ok((response, stream))
            }
            Err(error) => {
                let error = failure(&error, Stage::Head);
                if !self.server.supports_http2.load(Ordering::Relaxed) {
                    let why = error.cause.rsplit_once(": ").map_or(error.cause.as_str(), |(_, why)| why);
                    return Err(no_http2(why));
                }
                let was_used = connection.was_answered.load(Ordering::Relaxed) && connection.sender.is_closed();
                let is_lost = was_used && error.kind == FailureKind::Disconnected && sent.elapsed() < STALE_LIMIT;
                // Only one request per connection is sent again, so that a request that makes the server close its
                // connection is not repeated forever.
                let is_stale = is_lost && !connection.was_stale.swap(true, Ordering::Relaxed);
                Err(RequestError { is_stale, ..error })
            }
        }
    }

    /// Opens as many connections as `count` concurrent requests need.
    pub(super) async fn connect(&self, count: usize) -> ConnectOutcome {
        if count == 0 {
            return ConnectOutcome::AlreadyOpen;
        }
        let first = self.slot_at(0);
        let Ok((_, acquired)) = first.connection(&self.server).await else { return ConnectOutcome::AlreadyOpen };
        let mut limit = first.limit.subscribe();
        let is_declared = limit.wait_for(|limit| *limit != BEFORE_SETTINGS);
        let limit = tokio::time::timeout(SETTINGS_TIMEOUT, is_declared).await.ok();
        let limit = limit.and_then(|declared| declared.map(|limit| *limit).ok());
        let wanted =
            self.most.map_or_else(|| limit.map_or(1, |limit| count.div_ceil(limit.max(1))), |most| most.min(count));
        let further = open_together((1..wanted).map(|index| {
            let (slot, server) = (self.slot_at(index), self.server.clone());
            async move { slot.connection(&server).await.ok().map(|(_, acquired)| acquired.outcome()) }
        }));
        acquired.outcome().or(further.await)
    }

    /// The slot at this index, created if it does not exist.
    fn slot_at(&self, index: usize) -> Arc<Slot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        while slots.len() <= index {
            slots.push(Arc::default());
        }
        Arc::clone(&slots[index])
    }

    /// The slot with the fewest requests, or a new slot if the limits allow one. Counts the request as in flight.
    fn take_slot(&self) -> Arc<Slot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let least = slots.iter().min_by_key(|slot| slot.in_flight.load(Ordering::Relaxed));
        let found = least.filter(|least| match self.most {
            Some(most) => slots.len() >= most || least.in_flight.load(Ordering::Relaxed) == 0,
            None => !least.is_full(),
        });
        let slot = found.cloned().unwrap_or_else(|| {
            let slot = Arc::<Slot>::default();
            slots.push(Arc::clone(&slot));
            slot
        });
        slot.in_flight.fetch_add(1, Ordering::Relaxed);
        slot
    }
}

impl Acquisition {
    fn outcome(&self) -> ConnectOutcome {
        match self {
            Self::Existing | Self::Awaited(_) => ConnectOutcome::AlreadyOpen,
            Self::Opened(_) => ConnectOutcome::Opened,
        }
    }
}

impl Default for Slot {
    fn default() -> Self {
        let limit = Arc::new(watch::Sender::new(BEFORE_SETTINGS));
        Self {
            state: tokio::sync::Mutex::default(),
            attempts: AtomicU64::new(0),
            in_flight: AtomicUsize::new(0),
            limit,
        }
    }
}

impl Slot {
    /// Whether the connection has as many requests as the server allows.
    fn is_full(&self) -> bool {
        let limit = *self.limit.borrow();
        limit != BEFORE_SETTINGS && self.in_flight.load(Ordering::Relaxed) >= limit.max(1)
    }

    /// The current connection, or a new one. Requests that wait for an attempt to connect share its result, even a
    /// failure: if each of them tried again, the last would wait for as many timeouts as there are requests.
    async fn connection(&self, server: &Server) -> Result<(Http2Connection, Acquisition), RequestError> {
        let (started, before) = (Instant::now(), self.attempts.load(Ordering::Acquire));
        let mut state = self.state.lock().await;
        let has_waited = self.attempts.load(Ordering::Acquire) != before;
        match &*state {
            SlotState::Connected(connection) if !connection.sender.is_closed() => {
                let acquired =
                    if has_waited { Acquisition::Awaited(seconds(started.elapsed())) } else { Acquisition::Existing };
                return Ok((connection.clone(), acquired));
            }
            SlotState::Failed(error) if has_waited => return Err(error.clone()),
            SlotState::Connected(_) | SlotState::Failed(_) | SlotState::Empty => {}
        }
        let opened = self.open(server).await;
        *state = match &opened {
            Ok(connection) => SlotState::Connected(connection.clone()),
            Err(error) => SlotState::Failed(error.clone()),
        };
        self.attempts.fetch_add(1, Ordering::Release);
        opened.map(|connection| (connection, Acquisition::Opened(seconds(started.elapsed()))))
    }

    async fn open(&self, server: &Server) -> Result<Http2Connection, RequestError> {
        let wire = server.route.connect().await?;
        server.route.check_http2(&wire)?;
        let open = server.tally.opened();
        self.limit.send_replace(BEFORE_SETTINGS);
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.initial_max_send_streams(BEFORE_SETTINGS);
        let (sender, mut work) =
            builder.handshake(TokioIo::new(wire)).await.map_err(|error| failure(&error, Stage::Head))?;
        let (limit, supports_http2) = (Arc::clone(&self.limit), Arc::clone(&server.supports_http2));
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(POLL_INTERVAL);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            // Errors reach the tasks that wait for answers.
            let _ = std::future::poll_fn(|cx| {
                let end = Pin::new(&mut work).poll(cx);
                let declared = work.current_max_send_streams();
                if declared == BEFORE_SETTINGS {
                    while ticks.poll_tick(cx).is_ready() {}
                } else {
                    supports_http2.store(true, Ordering::Relaxed);
                }
                limit.send_if_modified(|limit| std::mem::replace(limit, declared) != declared);
                end
            })
            .await;
            drop(open);
        });
        Ok(Http2Connection { sender, was_answered: Arc::default(), was_stale: Arc::default() })
    }
}
