//! What the shell decides about definitions and plans.

use std::collections::BTreeMap;

use crate::compile::CompileOptions;

/// The version of kro whose labels, hashes and annotations we write, so that a cluster can move between kro and us
/// without a change to any object.
pub const KRO_VERSION: &str = "v0.9.4";

/// The most items one collection may have; kro's default of `--rgd-max-collection-size`.
pub const COLLECTION_SIZE_MAX: usize = 1000;

/// Settings of definitions, plans and decorations.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Settings {
    /// The value of the label `kro.run/kro-version` and, after `kro/`, of the ApplySet tooling annotation.
    pub kro_version: String,
    /// Labels on every child beside kro's own, the hub's id for example.
    pub extra_labels: BTreeMap<String, String>,
    /// The most items one collection may have.
    pub collection_size_max: usize,
    /// What definitions may use.
    pub compile: CompileOptions,
}

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        Self {
            kro_version: KRO_VERSION.to_owned(),
            extra_labels: BTreeMap::new(),
            collection_size_max: COLLECTION_SIZE_MAX,
            compile: CompileOptions::default(),
        }
    }
}
