//! Derives a label for folder names and the peak performance from the name of a device.

mod accelerator;
mod label;
mod name;

pub use accelerator::{Peak, peak_of};
pub use label::{UNKNOWN_HARDWARE, hardware_label};
