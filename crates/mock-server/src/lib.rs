//! A mock inference server that follows a script and records when it sent each chunk.
//!
//! A [`Script`] sets how long answers are, how fast tokens come, and how often each fault happens. The server speaks
//! the APIs of `OpenAI` and Ollama. [`Stats`] has the ground truth: when each request arrived and when each of its
//! chunks was written to the socket. With the same seed, the n-th request always gets the same answer, times and fault.
//!
//! ```
//! use ergometer_mock_server::{MockServer, Script};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use tokio::net::TcpStream;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
//! let script = Script { tokens: "3".parse()?, ttft: "20ms".parse()?, gap: "5ms".parse()?, ..Script::default() };
//! let server = MockServer::start(script).await?;
//!
//! let mut stream = TcpStream::connect(server.address()).await?;
//! stream
//!     .write_all(b"POST /v1/completions HTTP/1.1\r\nconnection: close\r\ncontent-length: 15\r\n\r\n{\"prompt\":\"hi\"}")
//!     .await?;
//! let mut answer = String::new();
//! stream.read_to_string(&mut answer).await?;
//! assert!(answer.starts_with("HTTP/1.1 200 OK"));
//!
//! let stats = server.stop().await;
//! assert_eq!((stats.totals.answered, stats.totals.tokens), (1, 3));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })
//! # }
//! ```
//!
//! Answers are planned without a socket (`plan`, `schedule`, `openai`, `ollama`), then sent (`generate`, `stream`).

mod clock;
mod connection;
mod distribution;
mod error;
mod fault;
mod generate;
mod generation_request;
mod http;
mod metrics;
mod ollama;
mod openai;
mod plan;
mod reply;
mod route;
mod schedule;
mod script;
mod server;
mod state;
mod stats;
mod stream;
mod stream_encoder;
mod summary;
mod timer;
mod truth;
mod words;

pub use distribution::{Delay, Length};
pub use error::{ScriptError, ServerError};
pub use fault::{Fault, FaultRate};
pub use script::{Newline, Script, StreamEnd, UsagePosition};
pub use server::{MockServer, RunningServer};
pub use summary::{Spread, Summary};
pub use truth::{RequestOutcome, RequestTruth, Stats, Totals};
