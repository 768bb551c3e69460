//! Names of revisions.
//!
//! Source: kro `pkg/controller/resourcegraphdefinition/controller_reconcile.go` graphRevisionName.

use crate::hash::fnv_32a;

/// The longest name an object can have.
const NAME_BYTES_MAX: usize = 253;

/// Names a revision of a definition: `web-r00001`. A name that would be too long is cut, and a hash of the whole
/// definition name keeps two that are cut alike apart.
pub fn revision_name(definition: &str, revision: i64) -> String {
    let plain = format!("{definition}-r{revision:05}");
    if plain.len() <= NAME_BYTES_MAX {
        return plain;
    }
    let suffix = format!("-r{revision:05}-{:08x}", fnv_32a(definition.as_bytes()));
    let mut stem = definition.to_owned();
    let mut length = NAME_BYTES_MAX.saturating_sub(suffix.len());
    while !stem.is_char_boundary(length) {
        length -= 1;
    }
    stem.truncate(length);
    let stem = stem.trim_end_matches(['.', '-']);
    let stem = if stem.is_empty() { "gr" } else { stem };
    format!("{stem}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_are_numbered_with_five_digits() {
        assert_eq!(revision_name("web", 1), "web-r00001");
        assert_eq!(revision_name("web", 123_456), "web-r123456");
    }

    #[test]
    fn long_names_are_cut_and_hashed() {
        let fits = "a".repeat(246);
        assert_eq!(revision_name(&fits, 1), format!("{fits}-r00001"));
        let long = "a".repeat(253);
        let name = revision_name(&long, 7);
        assert_eq!(name.len(), 253);
        assert!(
            name.starts_with("aaa") && name.contains("-r00007-"),
            "{name}"
        );
        assert_ne!(name, revision_name(&format!("{}b", "a".repeat(252)), 7));
        let dots = format!("{}{}", "a".repeat(200), ".".repeat(53));
        assert!(revision_name(&dots, 1).starts_with(&format!("{}-r00001-", "a".repeat(200))));
        assert!(revision_name(&".".repeat(253), 1).starts_with("gr-r00001-"));
    }
}
