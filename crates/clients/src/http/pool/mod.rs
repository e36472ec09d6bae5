//! The connection pool of one server: sends requests and returns the heads of their answers.
//!
//! A request has a connection to itself (HTTP/1.1) or shares one with other requests (HTTP/2). The most recently used
//! idle connection is reused first. The number of connections never exceeds the user's limit, and every connection is
//! counted.

mod answer;
mod http1;
mod http2;
mod reuse;
mod route;
mod tally;
mod wire;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ergometer_units::Seconds;
use http::{HeaderValue, Request};
use http_body_util::Full;
use rustls::ClientConfig;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

pub(crate) use self::answer::Answer;
use self::answer::{BusyConnection, Carrier};
use self::http1::Http1Connection;
use self::http2::Http2Pool;
use self::reuse::ReusePolicy;
use self::route::Route;
pub(super) use self::route::is_encrypted;
use self::tally::Tally;
pub(super) use self::wire::TooManyInterim;
use self::wire::Wire;
use super::{BaseUrl, HttpError, Network, Stage, Timeouts, failure};
use crate::{ConnectOutcome, ConnectionUse, Connections, FailureKind, Protocol, RequestError};

/// Maximum idle time of a connection that is reused; most servers close connections earlier.
const IDLE: Duration = Duration::from_secs(60);

/// A request on a connection that the server is closing fails within one round trip, so within this time.
const STALE_LIMIT: Duration = Duration::from_millis(500);

/// Maximum number of connections that are being opened at a time: the accept queue of a server may be limited to 128.
const MAX_OPENING: usize = 64;

/// The connections to one server.
pub(super) struct ConnectionPool {
    route: Arc<Route>,
    protocol: Protocol,
    tally: Arc<Tally>,
    /// Idle connections that can be reused, the most recently used last.
    idle: Mutex<VecDeque<Idle>>,
    /// One permit per HTTP/1.1 connection, if the number of connections is limited.
    permits: Option<Arc<Semaphore>>,
    /// Whether connections are reused.
    reuse: ReusePolicy,
    http2: Http2Pool,
}

struct Idle {
    connection: Http1Connection,
    since: Instant,
}

impl ConnectionPool {
    pub(super) fn new(base: &BaseUrl, network: &Network, tls: &ClientConfig) -> Result<Self, HttpError> {
        let limit = Timeouts::duration(network.timeouts.connect_s);
        let most = network.connections.map(|most| most.max(1) as usize);
        let is_shared = network.protocol == Protocol::Http2;
        let (route, tally) = (Arc::new(Route::new(base, network.protocol, tls, limit)?), Arc::<Tally>::default());
        Ok(Self {
            protocol: network.protocol,
            idle: Mutex::default(),
            permits: most.filter(|_| !is_shared).map(|most| Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)))),
            reuse: ReusePolicy::default(),
            http2: Http2Pool::new(Arc::clone(&route), Arc::clone(&tally), most),
            route,
            tally,
        })
    }

    /// Whether a forwarding proxy needs the whole URL in each request.
    pub(super) fn is_forwarded(&self) -> bool {
        self.route.is_forwarded()
    }

    /// The credentials that a forwarding proxy needs in each request.
    pub(super) fn proxy_authorization(&self) -> Option<&HeaderValue> {
        self.route.proxy_authorization()
    }

    pub(super) fn connections(&self) -> Connections {
        self.tally.connections(self.protocol)
    }

    /// Closes the idle connections.
    pub(super) fn close(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.http2.close();
    }

    /// Sends a request and returns when the head of the answer has arrived. `connection_use` receives the connection
    /// used.
    ///
    /// Some servers close a connection that they promised to keep alive (llama.cpp after every stream), and a request
    /// that is sent on it at that moment is lost, although neither side made an error. Such a failure is marked as
    /// stale, and after a few of them every request opens a new connection.
    pub(super) async fn send(
        self: &Arc<Self>,
        request: Request<Full<Bytes>>,
        connection_use: &mut Option<ConnectionUse>,
    ) -> Result<Answer, RequestError> {
        if self.protocol == Protocol::Http2 {
            let (response, stream) = self.http2.send(request, connection_use).await?;
            return Ok(Answer::new(response, Carrier::Http2(stream)));
        }
        let (permit, waited) = self.permit().await;
        let mut connection = if let Some(connection) = self.take_idle() {
            self.tally.reused();
            *connection_use = Some(ConnectionUse { protocol: Protocol::Http1, connect: None, waited });
            connection
        } else {
            let (wire, connect) = self.wire().await?;
            *connection_use = Some(ConnectionUse { protocol: Protocol::Http1, connect: Some(connect), waited });
            self.connection(wire).await?
        };
        let (sent, was_used) = (Instant::now(), connection.was_answered());
        match connection.send(request).await {
            Ok(response) => {
                if was_used {
                    self.reuse.record_success();
                }
                let pool = Arc::clone(self);
                let carrier = Carrier::Http1(Some(Box::new(BusyConnection { connection, pool, permit })));
                Ok(Answer::new(response, carrier))
            }
            Err(error) => {
                let error = failure(&error, Stage::Head);
                // After a longer time, the server has received the request and worked on it.
                let is_stale = was_used && error.kind == FailureKind::Disconnected && sent.elapsed() < STALE_LIMIT;
                if is_stale {
                    self.reuse.record_loss();
                    self.close();
                }
                Err(RequestError { is_stale, ..error })
            }
        }
    }

    /// Opens connections until `count` are idle, up to the user's limit, for requests that are about to be sent
    /// together. A connection that cannot be opened is no error here: its request will report it.
    pub(super) async fn connect(self: &Arc<Self>, count: usize) -> ConnectOutcome {
        if self.protocol == Protocol::Http2 {
            return self.http2.connect(count).await;
        }
        if !self.reuse.is_enabled() {
            return ConnectOutcome::AlreadyOpen;
        }
        let existing = self.idle.lock().unwrap_or_else(PoisonError::into_inner).len();
        let allowed = self.permits.as_ref().map_or(count, |permits| count.min(permits.available_permits()));
        let opening = (existing..allowed).map(|_| {
            let pool = Arc::clone(self);
            async move {
                let (wire, _) = pool.wire().await.ok()?;
                let connection = pool.connection(wire).await.ok()?;
                pool.give_back(connection);
                Some(ConnectOutcome::Opened)
            }
        });
        open_together(opening).await
    }

    /// The most recently used idle connection that is still open.
    fn take_idle(&self) -> Option<Http1Connection> {
        loop {
            let Idle { mut connection, since } = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop_back()?;
            if since.elapsed() < IDLE && connection.is_usable() {
                return Some(connection);
            }
        }
    }

    /// A permit for a connection, if their number is limited, and the time of waiting for it.
    async fn permit(&self) -> (Option<OwnedSemaphorePermit>, Option<Seconds>) {
        let Some(permits) = &self.permits else { return (None, None) };
        if let Ok(permit) = Arc::clone(permits).try_acquire_owned() {
            return (Some(permit), None);
        }
        let started = Instant::now();
        // The semaphore is never closed.
        let permit = Arc::clone(permits).acquire_owned().await.ok();
        (permit, Some(seconds(started.elapsed())))
    }

    /// A new wire and the time it took to connect.
    async fn wire(&self) -> Result<(Wire, Seconds), RequestError> {
        let started = Instant::now();
        let wire = self.route.connect().await?;
        Ok((wire, seconds(started.elapsed())))
    }

    async fn connection(&self, wire: Wire) -> Result<Http1Connection, RequestError> {
        let connection = Http1Connection::new(wire, self.tally.opened()).await;
        connection.map_err(|error| failure(&error, Stage::Head))
    }

    /// Keeps a connection for the next request if it can be reused.
    fn give_back(&self, mut connection: Http1Connection) {
        if !self.reuse.is_enabled() || !connection.is_usable() {
            return;
        }
        let since = Instant::now();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push_back(Idle { connection, since });
        // The connection at the front has been idle the longest.
        let is_old = idle.front().is_some_and(|front| since - front.since > IDLE);
        let old = if is_old { idle.pop_front() } else { None };
        drop(idle);
        drop(old);
    }
}

/// Opens connections, at most [`MAX_OPENING`] at a time, until one cannot be opened.
async fn open_together<W>(openings: impl Iterator<Item = W>) -> ConnectOutcome
where
    W: Future<Output = Option<ConnectOutcome>> + Send + 'static,
{
    let (mut opening, mut all) = (JoinSet::new(), ConnectOutcome::AlreadyOpen);
    for next in openings {
        if opening.len() >= MAX_OPENING {
            let Some(Ok(Some(connected))) = opening.join_next().await else { break };
            all = all.or(connected);
        }
        opening.spawn(next);
    }
    opening.join_all().await.into_iter().flatten().fold(all, ConnectOutcome::or)
}

fn seconds(length: Duration) -> Seconds {
    Seconds::from_nanos(i64::try_from(length.as_nanos()).unwrap_or(i64::MAX))
}
