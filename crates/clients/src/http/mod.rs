//! Sends requests over HTTP and reads responses, or a failure of a counted kind.
//!
//! Secrets are sent only to the origin they were given for, and over plain HTTP only to this machine.

mod address;
mod connection;
mod failure;
mod limits;
mod pool;
mod secrets;
mod tls;

pub use address::{AddressError, BaseUrl};
pub(crate) use connection::Target;
pub use connection::{Connection, HttpError, Network, Timeouts};
pub(crate) use failure::{Stage, error_message, failure, message, request_error, status_error, timed_out};
pub use limits::{ports, raise_descriptor_limit};
pub(crate) use pool::Answer;
