//! A trace's bytes.
