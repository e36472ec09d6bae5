//! What a run ran on: a device's name goes in; a label for folders, and the peaks that utilization is measured against,
//! come out.

mod accelerator;
mod label;
mod name;

pub use accelerator::{Peak, peak_of};
pub use label::{UNKNOWN_HARDWARE, hardware_label};
