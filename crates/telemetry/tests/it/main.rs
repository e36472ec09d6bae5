//! The crate as its users see it: recordings in, energy out.

mod truth;
