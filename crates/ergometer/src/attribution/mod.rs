//! Attributes the energy of a session to its requests.
//!
//! Time is cut into slices at the start, first token and end of every request. The energy of a slice is divided equally
//! among the requests in flight; it is idle energy if there are none, and unattributed if the sensors had a gap. So over a
//! session requests + idle + unattributed = the meter, and the shares of the requests sum to the first of these.

mod idle;
mod sharing;

pub use idle::IdlePower;
pub use sharing::{Balance, MeteredScope, Share, Sharing, Span};
