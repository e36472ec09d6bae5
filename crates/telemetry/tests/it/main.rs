//! Tests of the public API: recordings in, energy out.

mod faults;
mod invariants;
mod load;
mod random;
mod scale;
mod simulated;
mod simulator;
mod slow_gauge;
mod slow_meter;
mod truth;
