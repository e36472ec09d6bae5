//! The server as clients meet it.

fn main() {}
