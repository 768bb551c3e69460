//! The simple tests of cel-spec as an oracle.

#[cfg(test)]
mod cel_spec {
    mod literal;
    mod suite;
    mod textproto;
}
