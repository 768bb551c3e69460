//! What is written on an instance beside its status: finalizer, labels, inventory.
//!
//! Both writes are server-side applies, forced, each by a manager of its own (`kro.run/labeller`,
//! `kro.run/applyset-parent`).
//!
//! Source: kro `pkg/controller/instance/controller.go` applyManagedFinalizerAndLabels, `resources.go`.

use api::kro::keys;
use api::meta;
use serde_json::{Map, Value, json};

use crate::inventory::Inventory;
use crate::settings::Settings;

/// The ResourceGraphDefinition that a kind comes from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Owner {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

// === impl Owner ===

impl Owner {
    /// The labels of everything that comes from the definition itself: the generated definition and the instances.
    pub fn labels(&self, settings: &Settings) -> Map<String, Value> {
        Map::from_iter([
            (keys::LABEL_OWNED.to_owned(), json!("true")),
            (
                keys::LABEL_KRO_VERSION.to_owned(),
                json!(settings.kro_version),
            ),
            (keys::LABEL_RGD_ID.to_owned(), json!(self.uid)),
            (keys::LABEL_RGD_NAME.to_owned(), json!(self.name)),
        ])
    }
}

/// Whether the instance asks to be left alone.
pub fn is_suspended(instance: &Value) -> bool {
    meta::annotation(instance, keys::ANNOTATION_RECONCILE).is_some_and(|text| {
        text.eq_ignore_ascii_case("suspended") || text.eq_ignore_ascii_case("disabled")
    })
}

/// The body to apply as [`keys::MANAGER_LABELLER`] before any child is made: finalizer, labels and, with the finalizer, an
/// empty inventory, so that a deletion can always go on. Nothing when the instance has it all.
///
/// # Errors
/// When the finalizer is missing but an inventory is there that is not in order: its members would be lost.
pub fn labeller_patch(
    instance: &Value,
    owner: &Owner,
    settings: &Settings,
) -> Result<Option<Value>, String> {
    let has_finalizer = meta::has_finalizer(instance, keys::FINALIZER);
    let has_inventory = Inventory::is_present(instance);
    if !has_finalizer && has_inventory {
        Inventory::validate(instance).map_err(|error| {
            format!(
                "cannot install finalizer with invalid ApplySet inventory; repair the metadata, or remove it only after \
                 confirming no managed members remain: {error}"
            )
        })?;
    }
    let mut labels = owner.labels(settings);
    let has_labels = labels
        .iter()
        .all(|(key, value)| meta::label(instance, key) == value.as_str());
    if has_finalizer && has_labels {
        return Ok(None);
    }
    let mut patch = identity(instance);
    if !has_finalizer && !has_inventory {
        let empty = Inventory::empty(instance);
        labels.extend(empty.labels());
        patch["metadata"]["annotations"] = Value::Object(empty.annotations(settings));
    }
    patch["metadata"]["labels"] = Value::Object(labels);
    patch["metadata"]["finalizers"] = json!([keys::FINALIZER]);
    Ok(Some(patch))
}

/// The body to apply as [`keys::MANAGER_APPLYSET_PARENT`]: the inventory.
pub fn inventory_patch(instance: &Value, inventory: &Inventory, settings: &Settings) -> Value {
    let mut patch = identity(instance);
    patch["metadata"]["labels"] = Value::Object(inventory.labels());
    patch["metadata"]["annotations"] = Value::Object(inventory.annotations(settings));
    patch
}

fn identity(instance: &Value) -> Value {
    let mut metadata = json!({"name": meta::name(instance)});
    if !meta::namespace(instance).is_empty() {
        metadata["namespace"] = json!(meta::namespace(instance));
    }
    json!({
        "apiVersion": meta::api_version(instance),
        "kind": meta::kind(instance),
        "metadata": metadata,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance() -> Value {
        json!({
            "apiVersion": "kro.run/v1alpha1", "kind": "WebApp",
            "metadata": {"name": "demo", "namespace": "default", "labels": {"mine": "x"}},
            "spec": {"a": 1},
        })
    }

    fn owner() -> Owner {
        Owner {
            name: "webapp".to_owned(),
            uid: "u-1".to_owned(),
        }
    }

    #[test]
    fn a_new_instance_gets_finalizer_labels_and_an_empty_inventory() {
        let settings = Settings::default();
        let patch = labeller_patch(&instance(), &owner(), &settings)
            .expect("is in order")
            .expect("is needed");
        assert_eq!(
            patch["metadata"]["finalizers"],
            json!(["kro.run/finalizer"])
        );
        assert_eq!(
            patch["metadata"]["labels"]["kro.run/resource-graph-definition-name"],
            "webapp"
        );
        assert_eq!(
            patch["metadata"]["labels"]["kro.run/resource-graph-definition-id"],
            "u-1"
        );
        assert_eq!(patch["metadata"]["labels"]["kro.run/owned"], "true");
        assert_eq!(
            patch["metadata"]["annotations"]["applyset.kubernetes.io/contains-group-kinds"],
            ""
        );
        assert_eq!(patch["metadata"]["labels"].get("mine"), None);
        assert_eq!(patch.get("spec"), None);
        // Once applied, it is not needed again, and the inventory is in order.
        let mut applied = instance();
        for part in ["labels", "annotations", "finalizers"] {
            applied["metadata"][part] = patch["metadata"][part].clone();
        }
        assert_eq!(labeller_patch(&applied, &owner(), &settings), Ok(None));
        assert!(Inventory::validate(&applied).is_ok());
        // A new definition of the same name takes over, and leaves the inventory alone.
        let other = Owner {
            uid: "u-2".to_owned(),
            ..owner()
        };
        let patch = labeller_patch(&applied, &other, &settings)
            .expect("is in order")
            .expect("is needed");
        assert_eq!(patch["metadata"].get("annotations"), None);
    }

    #[test]
    fn a_broken_inventory_without_a_finalizer_is_not_papered_over() {
        let mut broken = instance();
        broken["metadata"]["annotations"] = json!({"applyset.kubernetes.io/tooling": "kro/v0.9.4"});
        let error = labeller_patch(&broken, &owner(), &Settings::default()).expect_err("is broken");
        assert!(
            error.starts_with("cannot install finalizer with invalid ApplySet inventory; "),
            "{error}"
        );
    }

    #[test]
    fn suspension_is_read_whatever_its_case() {
        for (text, want) in [
            ("suspended", true),
            ("Disabled", true),
            ("true", false),
            ("", false),
        ] {
            let mut instance = instance();
            instance["metadata"]["annotations"] = json!({"kro.run/reconcile": text});
            assert_eq!(is_suspended(&instance), want, "{text}");
        }
        assert!(!is_suspended(&instance()));
    }
}
