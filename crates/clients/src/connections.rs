//! The connection a request used, and counts of a client's connections.

use ergometer_units::Seconds;
use serde::{Deserialize, Serialize};

/// The connection that one request used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConnectionUse {
    /// The HTTP version.
    pub protocol: Protocol,
    /// Time to connect, including DNS and TLS; `None` when the connection was already open.
    pub connect: Option<Seconds>,
    /// Time spent waiting for a free connection because the limit was reached; `None` when one was free.
    pub waited: Option<Seconds>,
}

/// An HTTP version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Protocol {
    /// One request at a time on a connection.
    #[default]
    #[serde(rename = "http/1.1")]
    Http1,
    /// Many requests at a time on a connection.
    #[serde(rename = "http/2")]
    Http2,
}

impl Protocol {
    /// The name in tables and columns.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http1 => "http/1.1",
            Self::Http2 => "http/2",
        }
    }
}

/// Counts of a client's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Connections {
    /// The HTTP version.
    pub protocol: Protocol,
    /// Connections opened.
    pub opened: u64,
    /// Requests sent on a connection that was already open.
    pub reused: u64,
    /// The largest number of connections open at once.
    pub most_open: u64,
}

/// The result of opening connections in advance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectOutcome {
    /// All were already open, or the client has no connections.
    AlreadyOpen,
    /// At least one was opened.
    Opened,
}

impl ConnectOutcome {
    /// The result of both: opened if either one opened a connection.
    pub(crate) fn or(self, other: Self) -> Self {
        if self == Self::Opened { self } else { other }
    }
}
