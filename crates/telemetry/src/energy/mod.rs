//! The energy of any window of a timeline, with its uncertainty.
//!
//! Sensors of power are smeared and late, so reading them at a window's edges loses energy. Instead the true power is
//! taken as constant between known edges of activity, each sensor is modelled (its memory and its lag are fitted to
//! what it showed), and one robust least-squares solve over the whole run gives the power curve all windows are read
//! off: adjacent windows add up. `docs/design/energy-estimator.md` tells how, and how well.

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
