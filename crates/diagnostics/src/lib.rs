//! Errors that carry what to do about them.
//!
//! An error's text says what happened and where. What to do about it is a separate value, a [`Hint`], because the action
//! differs by front end: `--max-tokens N` on the command line is `max_tokens=N` in Python. Libraries build hints from
//! text, option names and commands; the front end words them with a [`Phrasing`].
//!
//! ```
//! use ergometer_diagnostics::{CommandLine, Diagnostic, Hint, Keywords, hint, option};
//!
//! #[derive(Debug, thiserror::Error)]
//! #[error("the dataset {id} is endless")]
//! struct Endless {
//!     id: String,
//! }
//!
//! impl Diagnostic for Endless {
//!     fn hint(&self) -> Option<Hint> {
//!         Some(hint!("end the run with ", option("max-queries"), " or ", option("duration").value("60s")))
//!     }
//! }
//!
//! let error = Endless { id: "synthetic".to_owned() };
//! let hint = error.hint().unwrap();
//! assert_eq!(error.to_string(), "the dataset synthetic is endless");
//! assert_eq!(hint.phrase(&CommandLine), "end the run with --max-queries or --duration 60s");
//! assert_eq!(hint.phrase(&Keywords), "end the run with max_queries or duration='60s'");
//! ```

mod diagnostic;
mod hint;
mod phrasing;

pub use diagnostic::{Diagnostic, Message};
pub use hint::{Hint, Part, command, flag, option};
pub use phrasing::{CommandLine, Keywords, Phrasing};
