//! The commands, one module each.

pub(crate) mod analyze;
pub(crate) mod compare;
pub(crate) mod doctor;
pub(crate) mod energy;
pub(crate) mod finalize;
pub(crate) mod generate;
pub(crate) mod list;
pub(crate) mod measure;
pub(crate) mod mock_server;
pub(crate) mod monitor;
pub(crate) mod plot;
pub(crate) mod profile;
pub(crate) mod report;
pub(crate) mod trace;
