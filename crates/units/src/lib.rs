//! Physical quantities and time, as types.
//!
//! In go plain numbers whose unit is named by the constructor; out come values that only combine where physics
//! allows it: `Watts * Seconds = Joules`, but `Joules + Watts` does not compile. Nothing here does I/O.
//!
//! ```
//! use ergometer_units::{Seconds, Watts};
//! let energy = Watts::new(643.0) * Seconds::new(2.0);
//! assert_eq!(energy.get(), 1286.0);
//! assert_eq!(energy / Seconds::new(2.0), Watts::new(643.0));
//! ```
//!
//! ```compile_fail
//! use ergometer_units::{Joules, Watts};
//! let nonsense = Joules::new(1.0) + Watts::new(1.0);
//! ```

mod clock_anchor;
mod count;
mod picos;
mod quantity;
pub mod shown;
mod timestamp;
mod window;

pub use clock_anchor::ClockAnchor;
pub use count::{Bytes, Tokens};
pub use picos::Picos;
pub use quantity::{Celsius, Joules, Seconds, Watts};
pub use timestamp::Timestamp;
pub use window::{ReversedWindow, Window};
