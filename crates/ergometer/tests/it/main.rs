//! End-to-end tests of runs with a scripted client and scripted sensors.

mod attribution;
mod calibration;
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
mod request_ids;
mod resume;
mod rig;
mod schedules;
mod secrets;
mod sensors;
mod server;
mod sweep_fit;
mod table;
mod tokens;
