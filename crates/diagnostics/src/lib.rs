//! Errors with hints.
//!
//! The text of an error describes what happened and where. The suggested fix is a separate value, a [`Hint`], because
//! it differs by front end: `--max-tokens N` on the command line is `max_tokens=N` in Python. Libraries build hints
//! from text, option names and commands; the front end formats them with a [`Phrasing`].
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

mod contained;
mod diagnostic;
mod hint;
mod phrasing;

pub use contained::contain_panic;
pub use diagnostic::{Diagnostic, Message};
pub use hint::{Hint, HintPart, command, flag, option};
pub use phrasing::{CommandLine, Keywords, Phrasing};
