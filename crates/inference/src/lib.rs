//! The embedded model: a folder with a Llama-architecture model goes in, streamed tokens come out.
//!
//! A [`Model`] is loaded from a Hugging Face folder or from the bytes of a [`Demo`] inside this library. It runs on the
//! processor, in 32-bit floats whatever the files hold, and is shared by reference: every call of [`Model::generate`]
//! has a cache of its own. Small models, the demos among them, run on the calling thread alone, so that the time of
//! that thread is the time of the inference; only matrices of 2^18 weights and more are spread over rayon's threads.
//!
//! ```
//! use std::ops::ControlFlow;
//! use ergometer_inference::{Demo, Model, Sampling};
//!
//! let model = Model::demo(Demo::Small)?;
//! let prompt = model.encode(None, "What is 39 + 1?")?;
//! let mut answer = String::new();
//! let generation = model.generate(&prompt, &Sampling::default(), &mut |piece| {
//!     answer.push_str(piece);
//!     ControlFlow::Continue(())
//! })?;
//! assert_eq!(answer, "40");
//! assert_eq!(generation.output_tokens, 3, "two digits and the end-of-sequence token");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod attention;
mod chat;
mod checkpoint;
mod config;
mod counter;
mod demo;
mod detokenizer;
mod error;
mod files;
mod generation;
mod matrix;
mod model;
mod python_methods;
mod rope;
mod sampling;
mod stop;
mod tokenizer;
mod transformer;
mod vector;

pub use chat::{Conversation, Exchange};
pub use checkpoint::WeightType;
pub use counter::TokenCounter;
pub use demo::Demo;
pub use error::{GenerateError, ModelError};
pub use generation::{Finish, Generation, Prompt};
pub use model::{Model, ModelInfo};
pub use sampling::{AtEnd, Sampling};
