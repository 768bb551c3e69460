//! What names, labels and metadata may look like, and what an update may change of them.
//!
//! The checks return the texts of Kubernetes, so that a refusal reads the same wherever it comes from.
//!
//! Source: `apimachinery/pkg/{util,api}/validation`, `apimachinery/pkg/api/validate/content`.

mod object_meta;

pub use dialect::names::{
    NameRule, is_config_map_key, is_dns_label, is_dns_subdomain, is_dns1035_label, is_label_value,
    is_path_segment, is_qualified_name,
};
pub use object_meta::{
    ANNOTATIONS_BYTES_MAX, FIELD_MANAGER_BYTES_MAX, finalizer_warnings, validate_annotations,
    validate_field_manager, validate_finalizers, validate_labels, validate_managed_fields,
    validate_object_meta, validate_object_meta_update, validate_owner_references,
};

/// How many characters of a `generateName` are kept.
const GENERATED_STEM_BYTES_MAX: usize = 58;
/// How many characters are added to it.
const GENERATED_SUFFIX_LENGTH: usize = 5;
/// No vowels and no digits that look like them, so that no words come out.
/// Source: `apimachinery/pkg/util/rand/rand.go`.
const GENERATED_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Makes a name from a stem and random numbers.
pub fn generate_name(base: &str, mut random: impl FnMut() -> u32) -> String {
    let end = base.floor_char_boundary(GENERATED_STEM_BYTES_MAX);
    let mut name = base.get(..end).unwrap_or_default().to_owned();
    for _ in 0..GENERATED_SUFFIX_LENGTH {
        let position = random() as usize % GENERATED_ALPHABET.len();
        name.extend(GENERATED_ALPHABET.get(position).copied().map(char::from));
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_have_five_random_characters_after_a_short_stem() {
        let mut next = 0;
        let mut random = || {
            next += 7;
            next
        };
        assert_eq!(generate_name("pod-", &mut random), "pod-ks4cl");
        let long = generate_name(&"a".repeat(100), &mut random);
        assert_eq!(long.len(), 63);
        assert!(is_dns_label(&long).is_empty());
    }
}
