//! Builds the bytes of `XSpace` traces for tests.
//!
//! [`Plane`], [`Line`] and [`Event`] describe a trace by names and times, which is enough for most tests. [`xspace`]
//! has every field of the format and writes it in the styles of different writers, for tests of the reader. The crate
//! does not depend on `ergometer-trace`, so that the unit tests of that crate can use it, too.
//!
//! ```
//! use ergometer_trace_testing::{Event, Line, Plane, encode};
//!
//! let kernel = Event { module: Some("jit_step"), ..Event::new("gemm", 0, 10) };
//! let plane = Plane { name: "/device:GPU:0", lines: vec![Line::new(1, vec![kernel])] };
//! assert!(encode(&[plane]).len() > 100);
//! ```

mod named;
pub mod xspace;

pub use named::{Event, Line, Plane, encode};
