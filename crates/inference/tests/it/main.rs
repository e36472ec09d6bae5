//! Integration tests: load a model and generate answers.

mod accuracy;
mod answers;
mod folders;
