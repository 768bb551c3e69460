//! Filled below, with the servers of `crate::testing`.
