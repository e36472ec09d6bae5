//! Requests over HTTP: an address and what may be sent there go in; answers come out, or a failure of a named kind.
//!
//! Secrets are sent to the origin they were given for and nowhere else, and over plain HTTP to this machine only.

mod address;
mod connection;
mod failure;
mod lanes;
mod limits;
mod secrets;
mod tls;

pub use address::{AddressError, BaseUrl};
pub(crate) use connection::Target;
pub use connection::{Connection, HttpError, Network, Timeouts};
pub(crate) use failure::{Stage, failure, message, request_error, said, status_error, timed_out};
pub(crate) use lanes::Answer;
pub use limits::{ports, raise_descriptor_limit};
