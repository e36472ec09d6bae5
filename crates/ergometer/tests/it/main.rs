//! Runs from end to end, with a scripted client and scripted sensors: what goes into the journal, what comes out of it.

mod client;
mod compatibility;
mod cuts;
mod dataset;
mod energy;
mod faults;
mod figures;
mod interrupt;
mod judge;
mod lifecycle;
mod load;
mod replace;
mod resume;
mod rig;
mod schedules;
mod sensors;
mod server;
mod table;
mod tokens;
