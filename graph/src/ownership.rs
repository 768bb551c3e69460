//! Whose a generated definition is.
//!
//! Source: kro `pkg/metadata/labels.go` CompareRGDOwnership, `pkg/client/crd.go`.

use api::crd::CustomResourceDefinition;
use api::kro::keys;

use crate::instance::Owner;
use crate::settings::Settings;

/// Whose a live definition is, seen from a ResourceGraphDefinition that wants it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Ownership {
    /// It is its own.
    Own,
    /// It was made for one of the same name that is gone; it is taken over.
    Adopted,
    /// Another ResourceGraphDefinition, by name, has it.
    Other(String),
    /// It was not made by kro.
    Foreign,
}

/// Puts the owner's labels on a generated definition.
pub fn label_definition(
    definition: &mut CustomResourceDefinition,
    owner: &Owner,
    settings: &Settings,
) {
    for (key, value) in owner.labels(settings) {
        let value = value.as_str().unwrap_or_default().to_owned();
        definition.metadata.labels.insert(key, value);
    }
}

/// Returns the owner of a live definition.
pub fn ownership(live: &CustomResourceDefinition, owner: &Owner) -> Ownership {
    let label = |key| live.metadata.labels.get(key).map(String::as_str);
    let is_kros = match label(keys::LABEL_OWNED) {
        Some(owned) => owned == "true",
        None => label(keys::LABEL_MANAGED_BY) == Some(keys::MANAGED_BY_KRO),
    };
    if !is_kros {
        return Ownership::Foreign;
    }
    let name = label(keys::LABEL_RGD_NAME).unwrap_or_default();
    if name != owner.name {
        return Ownership::Other(name.to_owned());
    }
    if label(keys::LABEL_RGD_ID) == Some(&owner.uid) {
        Ownership::Own
    } else {
        Ownership::Adopted
    }
}

// === impl Ownership ===

impl Ownership {
    /// Words the refusal to take the definition, if it is another's.
    pub fn refusal(&self, definition: &str) -> Option<String> {
        match self {
            Self::Own | Self::Adopted => None,
            Self::Other(name) => Some(format!(
                "failed to update CRD {definition}: CRD is owned by another ResourceGraphDefinition {name}"
            )),
            Self::Foreign => Some(format!(
                "failed to update CRD {definition}: CRD already exists and is not owned by KRO"
            )),
        }
    }
}
