//! The reader of traces against a second reader that shares nothing with it, on messages of every shape and on damage.

mod accounting;
mod damage;
mod formulas;
mod instructions;
mod reader;
mod reference;
mod seen;

use std::path::PathBuf;

use ergometer_trace::{Leniency, ReadOptions, Source, Trace, TraceError, read};

/// Reads one file of these bytes.
fn strict(bytes: &[u8]) -> Result<Trace, TraceError> {
    read(vec![Source::from_bytes("host.xplane.pb", bytes.to_vec())], &ReadOptions::default())
}

/// Reads what is whole of these bytes.
fn lenient(bytes: &[u8]) -> Result<Trace, TraceError> {
    let options = ReadOptions { leniency: Leniency::KeepWhole, ..ReadOptions::default() };
    read(vec![Source::from_bytes("host.xplane.pb", bytes.to_vec())], &options)
}

/// A recorded trace.
fn fixture(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/xplane").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
