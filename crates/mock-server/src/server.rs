//! Starts and stops the server, and opens and closes its port.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

use crate::connection;
use crate::error::ServerError;
use crate::script::Script;
use crate::state::ServerState;
use crate::truth::Stats;

/// The backlog of connections: more than a load test opens at once.
const BACKLOG: u32 = 4096;

/// The period of a port that is open part of the time.
const REFUSE_PERIOD: Duration = Duration::from_secs(1);

/// How long statistics wait for requests that are sending their last bytes.
const SETTLE: Duration = Duration::from_millis(200);

/// Starts mock servers.
#[derive(Debug)]
pub struct MockServer;

impl MockServer {
    /// Starts a server on the caller's tokio runtime.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
    /// use ergometer_mock_server::{MockServer, Script};
    /// let server = MockServer::start(Script::default()).await.unwrap();
    /// assert!(server.base_url().starts_with("http://127.0.0.1:"));
    /// assert_eq!(server.stop().await.totals.requests, 0);
    /// # });
    /// ```
    #[expect(clippy::unused_async, reason = "it needs a tokio runtime, and the signature says so")]
    pub async fn start(script: Script) -> Result<RunningServer, ServerError> {
        script.check()?;
        let address = script.address;
        let socket = bind(address)?;
        let bound = socket.local_addr().map_err(|cause| ServerError::Bind { address, cause })?;
        let share = script.refused_share();
        let port = if share >= 1.0 { Port::Closed(socket) } else { Port::Open(listen(socket, bound)?) };
        let state = Arc::new(ServerState::new(script).map_err(ServerError::Thread)?);
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(run(port, bound, Arc::clone(&state), stopped));
        Ok(RunningServer { address: bound, state, stop, task })
    }
}

/// A running server. Dropping it stops it.
#[derive(Debug)]
pub struct RunningServer {
    address: SocketAddr,
    state: Arc<ServerState>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl RunningServer {
    /// The address it listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL for clients: `http://127.0.0.1:9999`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The current statistics. Waits up to 200 ms for requests that are sending their last bytes.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let until = Instant::now() + SETTLE;
        while !self.state.ledger.is_settled() && Instant::now() < until {
            std::thread::sleep(Duration::from_micros(100));
        }
        self.state.ledger.snapshot(usize::MAX, None)
    }

    /// Closes the port and every connection, and returns the statistics from just before.
    pub async fn stop(self) -> Stats {
        let stats = self.stats();
        let _ = self.stop.send(());
        // A task that panicked has also closed the port and all connections.
        let _ = self.task.await;
        stats
    }
}

/// The port, listening or only bound.
#[derive(Debug)]
enum Port {
    Open(TcpListener),
    /// Bound, so that no other program takes it; connections are refused.
    Closed(TcpSocket),
}

fn bind(address: SocketAddr) -> Result<TcpSocket, ServerError> {
    let wrong = |cause| ServerError::Bind { address, cause };
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }.map_err(wrong)?;
    // Old connections of an earlier server must not block the port. On Windows this option would share the port.
    if cfg!(unix) {
        socket.set_reuseaddr(true).map_err(wrong)?;
    }
    socket.bind(address).map_err(wrong)?;
    Ok(socket)
}

fn listen(socket: TcpSocket, address: SocketAddr) -> Result<TcpListener, ServerError> {
    socket.listen(BACKLOG).map_err(|cause| ServerError::Bind { address, cause })
}

/// Accepts connections until stopped, then closes them.
async fn run(port: Port, address: SocketAddr, state: Arc<ServerState>, stopped: oneshot::Receiver<()>) {
    let mut connections = JoinSet::new();
    tokio::select! {
        _ = stopped => {}
        () = serve_port(port, address, &state, &mut connections) => {}
    }
    connections.shutdown().await;
}

/// Opens and closes the port by the script. The port starts open.
async fn serve_port(mut port: Port, address: SocketAddr, state: &Arc<ServerState>, connections: &mut JoinSet<()>) {
    let share = state.script.refused_share();
    loop {
        port = match port {
            Port::Open(listener) if share == 0.0 => {
                accept(&listener, state, connections).await;
                return;
            }
            Port::Open(listener) => {
                let open = REFUSE_PERIOD.mul_f64(1.0 - share);
                let _ = tokio::time::timeout(open, accept(&listener, state, connections)).await;
                drop(listener);
                match bind(address) {
                    Ok(socket) => Port::Closed(socket),
                    // Another program took the port, so the server ends.
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

async fn accept(listener: &TcpListener, state: &Arc<ServerState>, connections: &mut JoinSet<()>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                state.ledger.count(|totals| totals.connections += 1);
                connections.spawn(connection::serve(stream, Arc::clone(state)));
            }
            // Probably too many open files: wait for connections to close.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
        while connections.try_join_next().is_some() {}
    }
}
