//! The server itself: a script goes in, something that listens comes out.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

use crate::connection;
use crate::error::ServerError;
use crate::script::Script;
use crate::shared::Shared;
use crate::truth::Stats;

/// How many connections may wait to be taken: more than a load test opens at once.
const BACKLOG: u32 = 4096;

/// One turn of a port that is open for a part of the time.
const REFUSE_PERIOD: Duration = Duration::from_secs(1);

/// How long a look at the truth waits for a request that is sending its last bytes.
const SETTLE: Duration = Duration::from_millis(200);

/// A server that follows a script.
#[derive(Debug)]
pub struct MockServer;

impl MockServer {
    /// Listens from now on, on the runtime of the caller.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
    /// use ergometer_server::{MockServer, Script};
    /// let server = MockServer::start(Script::default()).await.unwrap();
    /// assert!(server.base_url().starts_with("http://127.0.0.1:"));
    /// assert_eq!(server.stop().await.totals.requests, 0);
    /// # });
    /// ```
    #[expect(clippy::unused_async, reason = "it needs a runtime, and the signature says so")]
    pub async fn start(script: Script) -> Result<Running, ServerError> {
        script.check()?;
        let address = script.address;
        let socket = bind(address)?;
        let bound = socket.local_addr().map_err(|cause| ServerError::Bind { address, cause })?;
        let share = script.refused_share();
        let port = if share >= 1.0 { Port::Closed(socket) } else { Port::Open(listen(socket, bound)?) };
        let shared = Arc::new(Shared::new(script).map_err(ServerError::Thread)?);
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(run(port, bound, Arc::clone(&shared), stopped));
        Ok(Running { address: bound, shared, stop, task })
    }
}

/// A server that listens. Dropping it stops it.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Running {
    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its address as a client wants it: `http://127.0.0.1:9999`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The truth as it is now. Waits a moment, at most 200 ms, where a request is sending its last bytes.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let until = Instant::now() + SETTLE;
        while !self.shared.ledger.is_settled() && Instant::now() < until {
            std::thread::sleep(Duration::from_micros(100));
        }
        self.shared.ledger.look(usize::MAX, None)
    }

    /// Closes the port and every connection, and returns the truth as it was before.
    pub async fn stop(self) -> Stats {
        let stats = self.stats();
        let _ = self.stop.send(());
        // A task that panicked has closed everything, too.
        let _ = self.task.await;
        stats
    }
}

/// The port, listening or only held.
#[derive(Debug)]
enum Port {
    Open(TcpListener),
    /// Bound, so that nobody else gets it; connections are refused.
    Closed(TcpSocket),
}

fn bind(address: SocketAddr) -> Result<TcpSocket, ServerError> {
    let wrong = |cause| ServerError::Bind { address, cause };
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }.map_err(wrong)?;
    // Connections of a server before must not keep the port. On Windows the option means to share it.
    if cfg!(unix) {
        socket.set_reuseaddr(true).map_err(wrong)?;
    }
    socket.bind(address).map_err(wrong)?;
    Ok(socket)
}

fn listen(socket: TcpSocket, address: SocketAddr) -> Result<TcpListener, ServerError> {
    socket.listen(BACKLOG).map_err(|cause| ServerError::Bind { address, cause })
}

/// Takes connections until it is told to stop; they end with it.
async fn run(port: Port, address: SocketAddr, shared: Arc<Shared>, stopped: oneshot::Receiver<()>) {
    let mut connections = JoinSet::new();
    tokio::select! {
        _ = stopped => {}
        () = keep(port, address, &shared, &mut connections) => {}
    }
    connections.shutdown().await;
}

/// Opens and closes the port by the script. It starts open.
async fn keep(mut port: Port, address: SocketAddr, shared: &Arc<Shared>, connections: &mut JoinSet<()>) {
    let share = shared.script.refused_share();
    loop {
        port = match port {
            Port::Open(listener) if share == 0.0 => {
                take(&listener, shared, connections).await;
                return;
            }
            Port::Open(listener) => {
                let open = REFUSE_PERIOD.mul_f64(1.0 - share);
                let _ = tokio::time::timeout(open, take(&listener, shared, connections)).await;
                drop(listener);
                match bind(address) {
                    Ok(socket) => Port::Closed(socket),
                    // Somebody else took the port: there is nothing left to serve.
                    Err(_) => return,
                }
            }
            Port::Closed(socket) if share >= 1.0 => {
                std::future::pending::<()>().await;
                Port::Closed(socket)
            }
            Port::Closed(socket) => {
                tokio::time::sleep(REFUSE_PERIOD.mul_f64(share)).await;
                match listen(socket, address) {
                    Ok(listener) => Port::Open(listener),
                    Err(_) => return,
                }
            }
        };
    }
}

async fn take(listener: &TcpListener, shared: &Arc<Shared>, connections: &mut JoinSet<()>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                shared.ledger.count(|totals| totals.connections += 1);
                connections.spawn(connection::serve(stream, Arc::clone(shared)));
            }
            // Out of files, most likely: others end and give theirs back.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
        while connections.try_join_next().is_some() {}
    }
}
