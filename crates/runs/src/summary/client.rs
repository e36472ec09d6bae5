//! Whether the client, and not the server, was the limit.

use std::fmt;

use ergometer_diagnostics::{Hint, hint, option};
use serde::{Deserialize, Serialize};

use crate::sender::WakeLag;

/// A limit of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientLimit {
    /// The process may not open more files and sockets.
    FileDescriptors,
    /// There is no free port for another connection.
    Sockets,
    /// Requests were sent later than scheduled, or fewer of them.
    Schedule,
    /// The allowed number of requests was in flight.
    MaxInFlight,
    /// The allowed number of connections was open, and requests waited for one.
    Connections,
    /// The process did not run for a while: it was stopped, or the machine was suspended or overloaded.
    Stalled,
    /// The processors were fully used.
    Cpu,
}

impl ClientLimit {
    /// A hint how to raise the limit.
    #[must_use]
    pub fn hint(self) -> Hint {
        match self {
            Self::FileDescriptors => {
                hint!("raise `ulimit -n`, or use ", option("http").value("2"), ", which needs fewer connections")
            }
            Self::Sockets => hint!(
                "use ",
                option("http").value("2"),
                ", which needs fewer connections, or send from another machine, which has its own ports"
            ),
            Self::Schedule => hint!("lower the rate, or send from several machines"),
            Self::MaxInFlight => hint!("raise or remove ", option("max-in-flight")),
            Self::Connections => hint!("raise or remove ", option("connections")),
            Self::Stalled => hint!(
                "repeat the run without stopping the client or overloading its machine; `wake_lag_ms.max` in \
                 summary.json is the longest stall"
            ),
            Self::Cpu => hint!("give the client more cores, or run it on another machine than the server"),
        }
    }
}

impl fmt::Display for ClientLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FileDescriptors => "too many open files",
            Self::Sockets => "no free ports",
            Self::Schedule => "requests were sent late",
            Self::MaxInFlight => "the limit on requests in flight was reached",
            Self::Connections => "requests waited for a free connection",
            Self::Stalled => "it stalled for more than 100 ms, so latencies of that time are too long",
            Self::Cpu => "its CPU was saturated",
        })
    }
}

/// Facts about the client.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "units are in the names")]
pub struct ClientSummary {
    /// The limits that the client reached; empty if it was not a limit.
    pub reasons: Vec<ClientLimit>,
    /// Of the session with the highest p99; the maximum is over all sessions.
    pub wake_lag_ms: Option<WakeLag>,
    /// The mean number of cores it used.
    pub processor_cores: Option<f64>,
    pub cores: Option<u32>,
    /// The highest of all sessions.
    pub machine_utilization: Option<f64>,
    pub descriptor_limit: Option<u64>,
    pub most_in_flight: u64,
}
