//! What listens: a mock of an inference server that follows a script and keeps the truth of what it sent.
//!
//! In goes a [`Script`]: how long answers are, how fast they come, what goes wrong how often. Out comes a server that
//! speaks `OpenAI`'s and Ollama's formats, and [`Stats`]: for every request when it came and when each of its chunks had
//! been written to the socket. The same seed gives the n-th request the same answer, times and fault.
//!
//! Answers are composed first, without a socket (`plan`, `score`, `openai`, `ollama`), then played (`generate`).

mod asked;
mod clock;
mod connection;
mod distribution;
mod error;
mod fault;
mod frame;
mod generate;
mod http;
mod metrics;
mod ollama;
mod openai;
mod plan;
mod reply;
mod route;
mod score;
mod script;
mod server;
mod shared;
mod stats;
mod stream;
mod summary;
mod timer;
mod truth;
mod words;

pub use distribution::{Delay, Length};
pub use error::{ScriptError, ServerError};
pub use fault::{Fault, FaultRate};
pub use script::{Newline, Script, StreamEnd, UsagePlace};
pub use server::{MockServer, Running};
pub use summary::{Spread, Summary};
pub use truth::{RequestTruth, Served, Stats, Totals};
