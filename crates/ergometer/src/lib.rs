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
#[expect(missing_docs, reason = "the fields are named by the layout, and by METRICS in docs")]
pub mod record;
pub mod review;
pub mod run;
pub mod slug;
mod stop;
pub mod store;
pub mod sweep;
