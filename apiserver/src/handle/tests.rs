//! Handlers against a real store: requests in, answers and stored objects out.

mod bench;
mod definitions;
mod lists;
mod patches;
mod watches;
mod writes;
