//! The `wheelhouse` binary.

fn main() {}
