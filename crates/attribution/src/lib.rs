//! Divides the energy of a server among the requests it served together.
//!
//! ```
//! use ergometer_attribution::{Arrival, Steps, Stream};
//! use ergometer_units::Timestamp;
//!
//! let at = |ms: i64| Timestamp::from_nanos_since_epoch(ms * 1_000_000);
//! let stream = |first: i64| Stream {
//!     id: None,
//!     sent: at(0),
//!     end: at(60),
//!     prompt_tokens: Some(100.0),
//!     cached_tokens: 0.0,
//!     output_tokens: Some(5.0),
//!     arrivals: (0..5).map(|token| Arrival { at: at(first + 10 * token), choice: 0 }).collect(),
//! };
//! // Two streams whose tokens arrive together, ten milliseconds apart.
//! let steps = Steps::from_arrivals(&[stream(10), stream(10)]).expect("the arrivals show the steps");
//! assert_eq!(steps.steps().len(), 5);
//! ```
//!
//! Input: the energy of a session ([`EnergyMeter`](ergometer_telemetry::EnergyMeter)), its idle power, and what the client
//! saw of each request ([`Stream`]). Output: the net joules of each request with a 95 % interval, and the cost model they
//! come from.
//!
//! A batching server works in steps. [`Steps`] says which requests took part in each step; it comes from an engine log,
//! from the arrival times of all tokens, or from token counts. The energy above idle of many stretches of time is fitted
//! to the work in them ([`fit`]). Each request is then charged its own work and an equal part of the fixed cost of each of
//! its steps ([`divide`]), scaled so that the shares sum to the meter. For a cost of this form that is the Shapley value:
//! what the request adds, averaged over all orders in which the batch could have been put together.
//!
//! [`Sharing`] divides every slice of time equally. It is the fallback, and it divides idle power.

mod calibration;
mod divide;
mod equal;
mod fit;
mod idle;
mod observe;
mod sharing;
#[cfg(test)]
mod simulated;
mod steps;
mod stream;

pub use calibration::Calibration;
pub use divide::{RequestShare, divide};
pub use equal::equal_share_range;
pub use fit::{LEAST_EXPLAINED, Observations, fit};
pub use idle::IdlePower;
pub use observe::{CLEARLY_BETTER, PrefillTime, Stretches, observe};
pub use sharing::{Balance, MeteredScope, Share, Sharing, Span};
pub use steps::{EngineLog, EngineLogError, RequestWork, StepWork, Steps};
pub use stream::{Arrival, Stream};
