//! Statistics of repeated times.
