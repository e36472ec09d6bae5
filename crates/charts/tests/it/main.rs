//! Integration tests: snapshots of charts, and a property test over arbitrary charts.

mod any_chart;
mod pictures;
