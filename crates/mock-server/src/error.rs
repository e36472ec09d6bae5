//! The errors of scripts and of starting the server.

use std::io;
use std::net::SocketAddr;

use ergometer_diagnostics::{Diagnostic, Hint, hint, option};

/// The server could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The script is invalid.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// The server cannot listen on the address.
    #[error("cannot listen on {address}: {cause}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// The timer thread could not be started.
    #[error("cannot start the timer thread: {0}")]
    Thread(io::Error),
}

impl Diagnostic for ServerError {
    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Script(error) => error.hint(),
            Self::Bind { cause, .. } if cause.kind() == io::ErrorKind::AddrNotAvailable => {
                Some(hint!("this machine does not have that address; pass ", option("host").value("127.0.0.1")))
            }
            Self::Bind { .. } => {
                Some(hint!("another program may use the port; ", option("port").value("0"), " picks a free one"))
            }
            Self::Thread(_) => Some(hint!("check the limit on threads with `ulimit -u`")),
        }
    }
}

/// A value of a script is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// The text is not a time or a distribution of times.
    #[error(
        "`{0}` is not a time: expected 50ms, uniform:10ms..20ms, normal:50ms,5ms or exponential:20ms, with a unit of us, ms, s or m"
    )]
    Delay(String),
    /// The text is not a count or a distribution of counts.
    #[error("`{0}` is not a count: expected 128, uniform:10..200, normal:128,20 or exponential:100")]
    Length(String),
    /// No fault has this name.
    #[error("`{0}` is not a fault")]
    Fault(String),
    /// The text is not a fault with its rate.
    #[error(
        "`{0}` is not a fault with a rate: expected KIND=RATE with a rate from 0 to 1 or in percent, as in reset=0.05 or 429=10%"
    )]
    Rate(String),
    /// A header requested to refuse a connection that was already accepted.
    #[error("the fault `refuse` applies to connections, so a request cannot ask for it")]
    RefuseByHeader,
    /// The rates of the faults sum to more than 100 %.
    #[error("the rates of the faults sum to {percent} %, more than 100 %")]
    TooManyFaults {
        /// The sum, rounded up.
        percent: u64,
    },
    /// A number is zero that must be at least one.
    #[error("{0} must be at least 1")]
    Zero(&'static str),
    /// The factor of slow requests is out of range.
    #[error("the factor of slow requests must be from 0 to 1,000,000")]
    SlowFactor,
}

impl Diagnostic for ScriptError {
    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Fault(_) => Some(hint!(format!("use one of {}", crate::fault::list()))),
            Self::RefuseByHeader => Some(hint!("start the server with ", option("fault").value("refuse=RATE"))),
            Self::TooManyFaults { .. } => Some(hint!("lower the rates: a request has at most one fault")),
            Self::Delay(_) | Self::Length(_) | Self::Rate(_) | Self::Zero(_) | Self::SlowFactor => None,
        }
    }
}
