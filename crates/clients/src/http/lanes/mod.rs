//! The connections to one server: a request goes in, the head of its answer comes out with what it travelled on.
//!
//! Each request has a connection of its own (HTTP/1.1), or shares one (HTTP/2). Of those that lie idle, the last one used is
//! taken first. There are never more than the user allows, and each is counted.

mod answer;
mod keeping;
mod route;
mod shared;
mod single;
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
use self::answer::{Carrier, Taken};
use self::keeping::Keeping;
use self::route::Route;
pub(super) use self::route::is_encrypted;
use self::shared::Shared;
use self::single::Lane;
use self::tally::Tally;
use self::wire::Wire;
use super::{BaseUrl, HttpError, Network, Stage, Timeouts, failure};
use crate::{ConnectOutcome, ConnectionUse, Connections, FailureKind, Protocol, RequestError};

/// A connection that lies idle for longer is of no more use; most servers have closed it before.
const IDLE: Duration = Duration::from_secs(60);

/// A connection that was just being closed tells so within a way there and back.
const STALE_WITHIN: Duration = Duration::from_millis(500);

/// So many connections are opened at a time: the queue of those that a server has yet to accept may be no longer than 128.
const AT_A_TIME: usize = 64;

/// The connections to one server.
pub(super) struct Lanes {
    route: Arc<Route>,
    protocol: Protocol,
    tally: Arc<Tally>,
    /// Those that can be used again, the last one used at the back.
    idle: Mutex<VecDeque<Idle>>,
    /// How many requests may have a connection, where that is limited.
    room: Option<Arc<Semaphore>>,
    /// Whether connections are used again.
    keeping: Keeping,
    shared: Shared,
}

struct Idle {
    lane: Lane,
    since: Instant,
}

impl Lanes {
    pub(super) fn new(base: &BaseUrl, network: &Network, tls: &ClientConfig) -> Result<Self, HttpError> {
        let limit = Timeouts::duration(network.timeouts.connect_s);
        let most = network.connections.map(|most| most.max(1) as usize);
        let is_shared = network.protocol == Protocol::Http2;
        let (route, tally) = (Arc::new(Route::new(base, network.protocol, tls, limit)?), Arc::<Tally>::default());
        Ok(Self {
            protocol: network.protocol,
            idle: Mutex::default(),
            room: most.filter(|_| !is_shared).map(|most| Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)))),
            keeping: Keeping::default(),
            shared: Shared::new(Arc::clone(&route), Arc::clone(&tally), most),
            route,
            tally,
        })
    }

    /// Whether a proxy is told the whole address with each request.
    pub(super) fn is_forwarded(&self) -> bool {
        self.route.is_forwarded()
    }

    /// What such a proxy wants to see with each request, where it does.
    pub(super) fn proxy_authorization(&self) -> Option<&HeaderValue> {
        self.route.proxy_authorization()
    }

    pub(super) fn connections(&self) -> Connections {
        self.tally.connections(self.protocol)
    }

    /// Closes the connections that lie idle.
    pub(super) fn close(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.shared.close();
    }

    /// Sends a request; returns once the head of the answer is there. `line` is what it travels on, once that is known.
    ///
    /// Some servers close a connection that they promised to keep (llama.cpp after every stream), and a request that is
    /// just then sent on it is lost, though nothing is wrong with either. Such a failure is marked as stale, and after a few
    /// of them every request has a connection of its own.
    pub(super) async fn send(
        self: &Arc<Self>,
        request: Request<Full<Bytes>>,
        line: &mut Option<ConnectionUse>,
    ) -> Result<Answer, RequestError> {
        if self.protocol == Protocol::Http2 {
            let (response, stream) = self.shared.send(request, line).await?;
            return Ok(Answer::new(response, Carrier::Stream(stream)));
        }
        let (room, waited) = self.room().await;
        let mut lane = if let Some(lane) = self.take_idle() {
            self.tally.reused();
            *line = Some(ConnectionUse { protocol: Protocol::Http1, connect: None, waited });
            lane
        } else {
            let (wire, connect) = self.wire().await?;
            *line = Some(ConnectionUse { protocol: Protocol::Http1, connect: Some(connect), waited });
            self.lane(wire).await?
        };
        let (sent, was_used) = (Instant::now(), lane.was_answered());
        match lane.send(request).await {
            Ok(response) => {
                if was_used {
                    self.keeping.went_well();
                }
                let lanes = Arc::clone(self);
                let carrier = Carrier::Lane(Some(Box::new(Taken { lane, lanes, room })));
                Ok(Answer::new(response, carrier))
            }
            Err(error) => {
                let error = failure(&error, Stage::Head);
                // A server that took longer has worked on it.
                let is_stale = was_used && error.kind == FailureKind::Disconnected && sent.elapsed() < STALE_WITHIN;
                if is_stale {
                    self.keeping.was_lost();
                    self.close();
                }
                Err(RequestError { is_stale, ..error })
            }
        }
    }

    /// Opens connections until so many lie idle, or as many as the user allows, for requests that are about to be sent
    /// together. One that cannot be opened is left to its request to tell of.
    pub(super) async fn connect(self: &Arc<Self>, count: usize) -> ConnectOutcome {
        if self.protocol == Protocol::Http2 {
            return self.shared.connect(count).await;
        }
        if !self.keeping.is_on() {
            return ConnectOutcome::AlreadyOpen;
        }
        let there = self.idle.lock().unwrap_or_else(PoisonError::into_inner).len();
        let allowed = self.room.as_ref().map_or(count, |room| count.min(room.available_permits()));
        let opening = (there..allowed).map(|_| {
            let lanes = Arc::clone(self);
            async move {
                let (wire, _) = lanes.wire().await.ok()?;
                let lane = lanes.lane(wire).await.ok()?;
                lanes.give_back(lane);
                Some(ConnectOutcome::Opened)
            }
        });
        open_together(opening).await
    }

    /// The last one that was used and is still open.
    fn take_idle(&self) -> Option<Lane> {
        loop {
            let Idle { mut lane, since } = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop_back()?;
            if since.elapsed() < IDLE && lane.is_usable() {
                return Some(lane);
            }
        }
    }

    /// Leave to have a connection, where it is needed, and how long it was waited for.
    async fn room(&self) -> (Option<OwnedSemaphorePermit>, Option<Seconds>) {
        let Some(room) = &self.room else { return (None, None) };
        if let Ok(permit) = Arc::clone(room).try_acquire_owned() {
            return (Some(permit), None);
        }
        let started = Instant::now();
        // It is never closed.
        let permit = Arc::clone(room).acquire_owned().await.ok();
        (permit, Some(seconds(started.elapsed())))
    }

    /// A new wire, and how long it took to connect.
    async fn wire(&self) -> Result<(Wire, Seconds), RequestError> {
        let started = Instant::now();
        let wire = self.route.connect().await?;
        Ok((wire, seconds(started.elapsed())))
    }

    async fn lane(&self, wire: Wire) -> Result<Lane, RequestError> {
        let lane = Lane::new(wire, self.tally.opened()).await;
        lane.map_err(|error| failure(&error, Stage::Head))
    }

    /// Keeps a lane for the next request, where it can be used again.
    fn give_back(&self, mut lane: Lane) {
        if !self.keeping.is_on() || !lane.is_usable() {
            return;
        }
        let since = Instant::now();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push_back(Idle { lane, since });
        // Those at the front have lain idle the longest.
        let is_old = idle.front().is_some_and(|front| since - front.since > IDLE);
        let old = if is_old { idle.pop_front() } else { None };
        drop(idle);
        drop(old);
    }
}

/// Opens connections, no more than [`AT_A_TIME`] at a time, until there is one that cannot be opened.
async fn open_together<W>(openings: impl Iterator<Item = W>) -> ConnectOutcome
where
    W: Future<Output = Option<ConnectOutcome>> + Send + 'static,
{
    let (mut opening, mut all) = (JoinSet::new(), ConnectOutcome::AlreadyOpen);
    for next in openings {
        if opening.len() >= AT_A_TIME {
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
