//! Integration tests of the public interface.

mod analyses;
mod analysis_tables;
mod compare;
mod pictures;
