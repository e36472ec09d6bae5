//! Compares the trace reader with an independent second reader, and tests accounting and damaged files.

mod accounting;
mod damage;
mod formulas;
mod instructions;
mod memory;
mod reader;
mod reference;
mod synthetic;
mod view;

use std::path::PathBuf;

use ergometer_trace::{Leniency, ReadOptions, Source, Trace, TraceError, read};

/// Reads a file with these bytes.
fn strict(bytes: &[u8]) -> Result<Trace, TraceError> {
    read(vec![Source::from_bytes("host.xplane.pb", bytes.to_vec())], &ReadOptions::default())
}

/// Reads the undamaged parts of a file with these bytes.
fn lenient(bytes: &[u8]) -> Result<Trace, TraceError> {
    let options = ReadOptions { leniency: Leniency::KeepWhole, ..ReadOptions::default() };
    read(vec![Source::from_bytes("host.xplane.pb", bytes.to_vec())], &options)
}

/// A recorded trace.
fn fixture(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/xplane").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
