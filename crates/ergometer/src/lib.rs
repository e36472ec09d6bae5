//! What AI inference costs, in time and in energy: dataset → client → run → journal → review → close → records and
//! tables.
//!
//! A module uses only what stands before it in this list: [`redact`], [`slug`], [`hardware`], [`grade`];
//! [`dataset`], [`client`], [`server_metrics`]; [`config`]; [`record`], [`journal`]; [`review`]; [`attribution`],
//! [`store`]; [`close`]; [`run`]; [`sweep`].

pub mod attribution;
pub mod close;
pub mod config;
pub mod hardware;
pub mod journal;
pub mod measure;
pub mod review;
pub mod run;
mod stop;
pub mod sweep;
