//! Estimates the energy of any window of a timeline, with its uncertainty.
//!
//! Power sensors smooth and delay power, so integrating their readings over a window loses energy at its edges. The
//! estimator instead lets power jump at known edges of activity, fits the memory (smoothing) and the lag of each sensor
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
mod metered_scope;
mod model;
mod observations;
mod response;
mod slices;
mod slow;
mod source;

pub use curve::SensorModel;
pub use estimate::{DeviceEnergy, EnergyError, EnergyEstimate, Method, Note, WindowEnergy};
pub use meter::EnergyMeter;
pub use metered_scope::MeteredScope;
pub use slices::{Slice, Slices};
