//! What requests travelled on.

use ergometer_units::Seconds;
use serde::{Deserialize, Serialize};

/// What one request travelled on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// The version of HTTP.
    pub protocol: Protocol,
    /// How long it took to connect, name look-up and TLS included; `None` on a connection that was there already.
    pub connect: Option<Seconds>,
    /// How long it waited until it might have a connection, where there may be no more of them; `None` where one was free.
    pub waited: Option<Seconds>,
}

/// A version of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Protocol {
    /// One request at a time on a connection.
    #[default]
    #[serde(rename = "http/1.1")]
    Http1,
    /// Many at a time on one.
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

/// What a client's connections came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Connections {
    /// The version of HTTP.
    pub protocol: Protocol,
    /// How many were opened.
    pub opened: u64,
    /// How many requests went out on one that was there already.
    pub reused: u64,
    /// How many were open at once at most.
    pub most_open: u64,
}

/// Whether connections were opened ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connected {
    /// All were there already, or there are none to open.
    Already,
    /// Some were opened.
    Anew,
}

impl Connected {
    /// What both come to.
    pub(crate) fn or(self, other: Self) -> Self {
        if self == Self::Anew { self } else { other }
    }
}
