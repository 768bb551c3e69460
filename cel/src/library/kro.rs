//! kro's own functions, bit for bit.
//!
//! Source: `kro/pkg/cel/library`.

pub(super) mod conditions;
pub(super) mod hash;
pub(super) mod json;
pub(super) mod lists;
pub(super) mod maps;
pub(super) mod omit;
pub(super) mod random;
