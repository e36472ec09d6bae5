//! Estimates the energy of any window of a timeline, with its uncertainty.
//!
//! Power sensors smooth and delay power, so integrating their readings over a window loses energy at its edges. The
//! estimator instead assumes a constant power between known edges of activity, fits the memory and the lag of each sensor
//! to its readings, and solves one robust least-squares problem over the whole run. All windows are integrals of the
//! resulting power curve, so adjacent windows add up. `docs/design/energy-estimator.md` describes method and accuracy.

mod banded;
mod cells;
mod curve;
mod estimate;
mod fit;
mod grid;
mod jumps;
mod meter;
mod model;
mod observations;
mod parts;
mod response;
mod slices;
mod slow;
mod source;

pub use curve::SensorModel;
pub use estimate::{DeviceEnergy, EnergyError, Estimate, Method, Note, WindowEnergy};
pub use meter::EnergyMeter;
pub use parts::Part;
pub use slices::{Slice, Slices};
