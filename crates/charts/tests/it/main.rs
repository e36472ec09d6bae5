//! What people see of a chart, and what no chart can break.

mod any_chart;
mod pictures;
