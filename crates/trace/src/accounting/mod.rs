//! Computes the times of planes, lines, modules, executions, ops, kernels, steps, named scopes and gaps.
//!
//! All times are exact. `total` is the sum of durations. `busy` is the length of the union of intervals; intervals that
//! touch are joined. `self` is a duration less the union of its direct children on the same line. `idle` is the span
//! less the busy time.

mod account;
mod class;
mod device;
mod executions;
mod exposure;
mod filter;
mod gaps;
mod grouping;
mod interval;
mod launches;
mod rows;
mod scopes;
mod steps;
mod summary;
mod sweep;
mod work;

use ergometer_units::Picos;
use serde::Serializer;

pub use account::{Account, Span};
pub use class::Class;
pub use device::DeviceId;
pub use executions::{Assignment, Execution, ExecutionKey, FoundBy, Module, executions, modules};
pub use exposure::Exposure;
pub use filter::Filter;
pub use gaps::{Gap, gaps};
pub use interval::{Interval, Union};
pub use rows::{By, Label, Row, rows};
pub use scopes::{Scope, scopes};
pub use steps::{Step, Steps, StepsBy, steps};
pub use summary::{LineSummary, PlaneSummary, WorkSummary, summary};
pub use sweep::Order;
pub use work::{Role, kinds_of_work};

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn as_ps<S: Serializer>(time: &Picos, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i64(time.get())
}
