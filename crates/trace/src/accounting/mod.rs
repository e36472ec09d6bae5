//! Events into times: of planes and lines, modules, executions, ops, kernels, steps, named scopes, and of what lies between.

mod account;
mod class;
mod filter;
mod interval;
mod rows;
mod sweep;
mod work;

pub use account::{Account, Span};
pub use class::Class;
pub use filter::Filter;
pub use rows::{By, Label, Row, rows};
