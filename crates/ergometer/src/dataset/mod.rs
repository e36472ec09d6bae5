//! Datasets: an id or a path goes in, queries come out.

mod query;

pub use query::Query;
