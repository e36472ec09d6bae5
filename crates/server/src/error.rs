//! Why the server cannot start, or a script cannot be played.

use std::io;
use std::net::SocketAddr;

/// What went wrong, where, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The script contradicts itself.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {cause}. hint: another program may have the port; --port 0 picks a free one")]
    Bind {
        /// The address that was asked for.
        address: SocketAddr,
        /// What the system says.
        cause: io::Error,
    },
    /// There is no thread for the timer.
    #[error("cannot start a thread to keep time: {0}. hint: `ulimit -u` says how many there may be")]
    Thread(io::Error),
}

/// Why a piece of a script is no script.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// Text that is no distribution of times.
    #[error(
        "`{0}` is no time: write 50ms, uniform:10ms..20ms, normal:50ms,5ms or exponential:20ms, with a unit of us, ms, s or m"
    )]
    Delay(String),
    /// Text that is no distribution of counts.
    #[error("`{0}` is no count: write 128, uniform:10..200, normal:128,20 or exponential:100")]
    Length(String),
    /// A name that is no fault.
    #[error("`{0}` is no fault. hint: there are {list}", list = crate::fault::list())]
    Fault(String),
    /// A share that is no share.
    #[error(
        "`{0}` is no fault and rate: write KIND=RATE with a rate from 0 to 1 or in percent, as in reset=0.05 or 429=10%"
    )]
    Rate(String),
    /// More faults than requests.
    #[error("the rates of the faults sum to {percent} %, and a request has at most one. hint: 100 % is the most")]
    TooManyFaults {
        /// What they sum to, rounded up.
        percent: u64,
    },
    /// A number that has to be at least one.
    #[error("{0} must be at least 1")]
    Zero(&'static str),
    /// A factor that makes nothing slower.
    #[error("the factor of slow requests must be from 0 to 1,000,000")]
    SlowFactor,
}
