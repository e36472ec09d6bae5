//! Runs Llama-architecture models on the CPU and streams their answers.
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
//!
//! A [`Model`] is loaded from a Hugging Face folder or from a [`Demo`] embedded in this library. It computes in 32-bit
//! floats, whatever number format the files use. Threads share a model by reference: each call of [`Model::generate`]
//! has its own cache. Small models, including the demos, run on the calling thread only, so the CPU time of that thread
//! is the CPU time of the inference. Matrices of 2^18 or more weights are split over rayon's threads.

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
mod threads;
mod token_bytes;
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
pub use sampling::{EndOfSequence, Sampling};
