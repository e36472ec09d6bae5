//! Who used the energy: the meter of a session and the spans of its requests go in; each request's share comes out.
//!
//! Time is cut at every edge of every request. The energy of a slice is shared equally by the requests in flight in it;
//! where none is, it is idle; where the sensors were silent, it is unattributed. So over a session
//! requests + idle + unattributed = the meter, and the shares of the requests sum to the first of these.

mod idle;
mod sharing;

pub use idle::IdlePower;
pub use sharing::{Balance, Place, Share, Sharing, Span};
