//! HTTP/2: many requests at a time on few connections, each driven by a task of its own.
//!
//! There are as many connections as the user says, and all are taken in turn, as soon as so many requests are in flight.
//! Where nothing was said there is one, and another as soon as every one of them has as many requests as the server allows
//! it. How many that is the server says once it was connected to; until then all go out on one.

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
use super::{STALE_WITHIN, open_together, seconds};
use crate::http::{Stage, failure};
use crate::{ConnectOutcome, ConnectionUse, FailureKind, Protocol, RequestError};

/// How many requests go out on a connection before the server has said how many it takes. The number is one that no server
/// says, so another means that it has spoken.
const BEFORE_SETTINGS: usize = 97;

/// How long a server may take to say how many it takes, where connections are opened ahead. It says so with its first bytes.
const SETTINGS_WITHIN: Duration = Duration::from_secs(1);

/// How often to look whether it has: nobody tells of it. A way there and back on one machine takes less than that.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// The connections.
pub(super) struct Shared {
    /// How many, where the user says so.
    most: Option<usize>,
    slots: Mutex<Vec<Arc<Slot>>>,
    server: Server,
}

/// Whom the connections lead to.
#[derive(Clone)]
struct Server {
    route: Arc<Route>,
    tally: Arc<Tally>,
    /// Whether it has spoken HTTP/2 on any connection so far.
    has_spoken: Arc<AtomicBool>,
}

/// The place of one connection.
struct Slot {
    /// Whoever finds nothing in it connects, and the others wait.
    place: tokio::sync::Mutex<Place>,
    /// How many attempts to connect have come to their end: who waits and sees another number has waited for one.
    attempts: AtomicU64,
    in_flight: AtomicUsize,
    /// How many requests at a time the server takes on the connection that is there.
    limit: Arc<watch::Sender<usize>>,
}

#[derive(Default)]
enum Place {
    #[default]
    Empty,
    Live(Live),
    /// Why the last attempt to connect failed.
    Failed(RequestError),
}

#[derive(Clone)]
struct Live {
    sender: SendRequest<Full<Bytes>>,
    /// Whether anything was answered on it.
    was_answered: Arc<AtomicBool>,
    /// Whether a request was lost on it as the server closed it, and is sent again.
    was_stale: Arc<AtomicBool>,
}

/// How a request came by its connection.
enum How {
    /// It was there.
    There,
    /// Another request was about to open it; so long was the wait for it.
    Awaited(Seconds),
    /// It was opened; so long did that take.
    Opened(Seconds),
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
    pub(super) fn new(route: Arc<Route>, tally: Arc<Tally>, most: Option<usize>) -> Self {
        Self { most, slots: Mutex::default(), server: Server { route, tally, has_spoken: Arc::default() } }
    }

    /// Lets go of the connections; each ends with its last answer.
    pub(super) fn close(&self) {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Sends a request; returns once the head of the answer is there.
    pub(super) async fn send(
        &self,
        request: Request<Full<Bytes>>,
        line: &mut Option<ConnectionUse>,
    ) -> Result<(Response<Incoming>, Stream), RequestError> {
        let slot = self.slot();
        let stream = Stream(Some(Arc::clone(&slot)));
        let (mut live, how) = slot.live(&self.server).await?;
        let connect = match how {
            How::There => None,
            How::Awaited(length) | How::Opened(length) => Some(length),
        };
        *line = Some(ConnectionUse { protocol: Protocol::Http2, connect, waited: None });
        if !matches!(how, How::Opened(_)) {
            self.server.tally.reused();
        }
        let sent = Instant::now();
        match live.sender.send_request(request).await {
            Ok(response) => {
                live.was_answered.store(true, Ordering::Relaxed);
                Ok((response, stream))
            }
            Err(error) => {
                let error = failure(&error, Stage::Head);
                if !self.server.has_spoken.load(Ordering::Relaxed) {
                    let why = error.cause.rsplit_once(": ").map_or(error.cause.as_str(), |(_, why)| why);
                    return Err(no_http2(why));
                }
                let was_used = live.was_answered.load(Ordering::Relaxed) && live.sender.is_closed();
                let is_lost = was_used && error.kind == FailureKind::Disconnected && sent.elapsed() < STALE_WITHIN;
                // One request of a connection is sent again: a server that closes on what it is asked is not asked for ever.
                let is_stale = is_lost && !live.was_stale.swap(true, Ordering::Relaxed);
                Err(RequestError { is_stale, ..error })
            }
        }
    }

    /// Opens as many connections as so many requests at a time need.
    pub(super) async fn connect(&self, count: usize) -> ConnectOutcome {
        if count == 0 {
            return ConnectOutcome::AlreadyOpen;
        }
        let first = self.at(0);
        let Ok((_, how)) = first.live(&self.server).await else { return ConnectOutcome::AlreadyOpen };
        let mut limit = first.limit.subscribe();
        let is_said = limit.wait_for(|limit| *limit != BEFORE_SETTINGS);
        let limit =
            tokio::time::timeout(SETTINGS_WITHIN, is_said).await.ok().and_then(|said| said.map(|said| *said).ok());
        let wanted =
            self.most.map_or_else(|| limit.map_or(1, |limit| count.div_ceil(limit.max(1))), |most| most.min(count));
        let further = open_together((1..wanted).map(|index| {
            let (slot, server) = (self.at(index), self.server.clone());
            async move { slot.live(&server).await.ok().map(|(_, how)| how.connected()) }
        }));
        how.connected().or(further.await)
    }

    /// The place of this number, which may be a new one.
    fn at(&self, index: usize) -> Arc<Slot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        while slots.len() <= index {
            slots.push(Arc::default());
        }
        Arc::clone(&slots[index])
    }

    /// The place with the fewest requests; a new one where there may be more.
    fn slot(&self) -> Arc<Slot> {
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

impl How {
    fn connected(&self) -> ConnectOutcome {
        match self {
            Self::There | Self::Awaited(_) => ConnectOutcome::AlreadyOpen,
            Self::Opened(_) => ConnectOutcome::Opened,
        }
    }
}

impl Default for Slot {
    fn default() -> Self {
        let limit = Arc::new(watch::Sender::new(BEFORE_SETTINGS));
        Self {
            place: tokio::sync::Mutex::default(),
            attempts: AtomicU64::new(0),
            in_flight: AtomicUsize::new(0),
            limit,
        }
    }
}

impl Slot {
    /// Whether it has as many requests as the server has said it takes.
    fn is_full(&self) -> bool {
        let limit = *self.limit.borrow();
        limit != BEFORE_SETTINGS && self.in_flight.load(Ordering::Relaxed) >= limit.max(1)
    }

    /// The connection that is there, or a new one. Those who wait for one share what comes of it, a failure too: if each of
    /// them tried again, the last would wait for as many timeouts as there are requests.
    async fn live(&self, server: &Server) -> Result<(Live, How), RequestError> {
        let (started, before) = (Instant::now(), self.attempts.load(Ordering::Acquire));
        let mut place = self.place.lock().await;
        let has_waited = self.attempts.load(Ordering::Acquire) != before;
        match &*place {
            Place::Live(live) if !live.sender.is_closed() => {
                let how = if has_waited { How::Awaited(seconds(started.elapsed())) } else { How::There };
                return Ok((live.clone(), how));
            }
            Place::Failed(error) if has_waited => return Err(error.clone()),
            Place::Live(_) | Place::Failed(_) | Place::Empty => {}
        }
        let opened = self.open(server).await;
        *place = match &opened {
            Ok(live) => Place::Live(live.clone()),
            Err(error) => Place::Failed(error.clone()),
        };
        self.attempts.fetch_add(1, Ordering::Release);
        opened.map(|live| (live, How::Opened(seconds(started.elapsed()))))
    }

    async fn open(&self, server: &Server) -> Result<Live, RequestError> {
        let wire = server.route.connect().await?;
        server.route.check_http2(&wire)?;
        let open = server.tally.opened();
        self.limit.send_replace(BEFORE_SETTINGS);
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.initial_max_send_streams(BEFORE_SETTINGS);
        let (sender, mut work) =
            builder.handshake(TokioIo::new(wire)).await.map_err(|error| failure(&error, Stage::Head))?;
        let (limit, has_spoken) = (Arc::clone(&self.limit), Arc::clone(&server.has_spoken));
        tokio::spawn(async move {
            let mut look = tokio::time::interval(LOOK_EVERY);
            look.set_missed_tick_behavior(MissedTickBehavior::Delay);
            // Its errors reach whoever waits for an answer.
            let _ = std::future::poll_fn(|cx| {
                let end = Pin::new(&mut work).poll(cx);
                let said = work.current_max_send_streams();
                if said == BEFORE_SETTINGS {
                    while look.poll_tick(cx).is_ready() {}
                } else {
                    has_spoken.store(true, Ordering::Relaxed);
                }
                limit.send_if_modified(|limit| std::mem::replace(limit, said) != said);
                end
            })
            .await;
            drop(open);
        });
        Ok(Live { sender, was_answered: Arc::default(), was_stale: Arc::default() })
    }
}
