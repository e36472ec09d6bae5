//! Physical quantities, counts and times as types.
//!
//! ```
//! use ergometer_units::{Seconds, Watts};
//! let energy = Watts::new(643.0) * Seconds::new(2.0);
//! assert_eq!(energy.get(), 1286.0);
//! assert_eq!(energy / Seconds::new(2.0), Watts::new(643.0));
//! ```
//!
//! Constructors name the unit of a plain number. Values only combine as physics allows: adding joules and watts does
//! not compile.
//!
//! ```compile_fail
//! use ergometer_units::{Joules, Watts};
//! let nonsense = Joules::new(1.0) + Watts::new(1.0);
//! ```

mod clock_anchor;
mod count;
pub mod format;
mod picos;
mod quantity;
pub mod text;
mod timestamp;
mod window;

pub use clock_anchor::ClockAnchor;
pub use count::{Bytes, Tokens};
pub use picos::Picos;
pub use quantity::{Celsius, Joules, Seconds, Watts};
pub use timestamp::Timestamp;
pub use window::{ReversedWindow, Window};
