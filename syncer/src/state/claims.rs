//! What is an instance's own in its target: what its ledger names, and what bears its mark there.
//!
//! # Invariants
//!
//! Labels alone prove nothing: whoever may write an object may put them on. What the ledger does not name is never deleted.
//! What it names goes when it has the uid that was confirmed by an apply, or the mark of an apply of this hub, for this very instance,
//! whose answer was lost. An earlier instance of the name may have left an object that bears the same mark and stays.

use std::collections::BTreeMap;

use api::{kro::keys, wheelhouse};
use client::reflector::RawObject;
use graph::ObjectRef;
use serde_json::{Value, json};

/// The uids of an instance's objects; empty until an apply has confirmed one.
pub(crate) type Claims = BTreeMap<ObjectRef, String>;

/// A version that no object ever has: etcd's first write makes 2, the hub's own versions are far above. An apply that
/// names it makes an object, and never changes one.
const NO_VERSION: &str = "1";

/// What of a target bears an instance's mark.
#[derive(Debug)]
pub(crate) struct Mark<'a> {
    set: String,
    instance_uid: String,
    hub_id: &'a str,
}

// === impl Mark ===

impl<'a> Mark<'a> {
    /// The mark that applies for an instance leave.
    pub(crate) fn of(instance: &Value, hub_id: &'a str) -> Self {
        Self {
            set: graph::applyset_id(instance),
            instance_uid: api::meta::uid(instance).to_owned(),
            hub_id,
        }
    }

    /// Returns whether an object was applied for the instance, by this hub.
    pub(crate) fn is_on(&self, object: &RawObject) -> bool {
        label(object, keys::LABEL_APPLYSET_PART_OF) == Some(self.set.as_str())
            && label(object, wheelhouse::keys::HUB) == Some(self.hub_id)
            && object.is_applied_by(keys::MANAGER_APPLYSET)
    }

    /// Returns whether an object was applied for the instance and not for an earlier one of its name.
    fn is_on_its_own(&self, object: &RawObject) -> bool {
        label(object, keys::LABEL_INSTANCE_ID) == Some(self.instance_uid.as_str())
            && self.is_on(object)
    }

    /// Returns whether an object bears the mark of another instance, or of another hub.
    fn is_anothers(&self, object: &RawObject) -> bool {
        label(object, keys::LABEL_APPLYSET_PART_OF).is_some_and(|set| set != self.set)
            || label(object, wheelhouse::keys::HUB).is_some_and(|hub| hub != self.hub_id)
    }

    /// [`may_delete`] for an object that does not bear the labels by which it would have been seen: where it says that it is
    /// another's, it may have been taken over since.
    pub(crate) fn may_delete_unseen(
        &self,
        claims: &Claims,
        reference: &ObjectRef,
        object: &RawObject,
    ) -> bool {
        !self.is_anothers(object) && may_delete(claims, self, reference, object)
    }
}

fn label<'o>(object: &'o RawObject, key: &str) -> Option<&'o str> {
    object.labels.get(key).map(String::as_str)
}

/// Returns whether an object may be deleted for an instance.
pub(crate) fn may_delete(
    claims: &Claims,
    mark: &Mark<'_>,
    reference: &ObjectRef,
    object: &RawObject,
) -> bool {
    claims
        .get(reference)
        .is_some_and(|uid| (!uid.is_empty() && *uid == object.uid) || mark.is_on_its_own(object))
}

/// Makes an apply that is refused where there is an object already, whatever it wants.
pub(crate) fn create_only(object: &Value) -> Value {
    with(object, "resourceVersion", NO_VERSION)
}

/// Makes an apply that is refused where there is no object of this uid.
pub(crate) fn update_only(object: &Value, uid: &str) -> Value {
    with(object, "uid", uid)
}

fn with(object: &Value, field: &str, text: &str) -> Value {
    let mut object = object.clone();
    object["metadata"][field] = json!(text);
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance() -> Value {
        json!({
            "apiVersion": "kro.run/v1alpha1", "kind": "App",
            "metadata": {"name": "a", "namespace": "n", "uid": "i"},
        })
    }

    fn object(hub: &str, manager: &str) -> RawObject {
        object_for("i", hub, manager)
    }

    fn object_for(owner: &str, hub: &str, manager: &str) -> RawObject {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "c", "namespace": "n", "uid": "u", "resourceVersion": "5",
                "labels": {
                    keys::LABEL_APPLYSET_PART_OF: graph::applyset_id(&instance()),
                    keys::LABEL_INSTANCE_ID: owner,
                    wheelhouse::keys::HUB: hub,
                },
                "managedFields": [{"manager": manager, "operation": "Apply"}],
            },
        });
        RawObject::from_value(&object).unwrap()
    }

    #[test]
    fn only_what_the_ledger_names_is_deleted_and_only_as_it_was_made() {
        let instance = instance();
        let mark = Mark::of(&instance, "hub-a");
        let ours = object("hub-a", keys::MANAGER_APPLYSET);
        let other_hub = object("hub-b", keys::MANAGER_APPLYSET);
        let planted = object("hub-a", "kubectl");
        let earlier = object_for("before", "hub-a", keys::MANAGER_APPLYSET);
        let reference = ObjectRef {
            group: String::new(),
            kind: "ConfigMap".to_owned(),
            namespace: "n".to_owned(),
            name: "c".to_owned(),
        };
        let named = |uid: &str| Claims::from([(reference.clone(), uid.to_owned())]);
        for (name, claims, object, want) in [
            (
                "in no ledger, whatever it bears",
                Claims::new(),
                &ours,
                false,
            ),
            ("confirmed", named("u"), &planted, true),
            ("intended, and marked", named(""), &ours, true),
            ("intended, and left by another", named(""), &earlier, false),
            ("taken up from another", named("u"), &earlier, true),
            ("intended, and another's", named(""), &planted, false),
            ("intended, and of another hub", named(""), &other_hub, false),
            ("made anew by another", named("before"), &planted, false),
            ("made anew by us", named("before"), &ours, true),
        ] {
            let got = may_delete(&claims, &mark, &reference, object);
            assert_eq!(got, want, "{name}");
        }
    }
}
