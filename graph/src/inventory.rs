//! The ApplySet inventory of an instance: which kinds in which namespaces its children may be in.
//!
//! The instance carries it as labels and annotations, so that deletion needs neither graph nor expressions: the members
//! are found by their `part-of` label in these kinds and namespaces. Before an apply the inventory is a superset (what
//! was and what will be), after a prune it is exact. A hash guards it against accidental edits.
//!
//! Source: kro `pkg/controller/instance/applyset/`, KEP-3659.

use std::collections::BTreeSet;
use std::fmt;

use api::kro::keys;
use api::validation::{is_dns_label, is_dns_subdomain};
use api::{GroupKind, meta};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use dialect::quote;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::settings::Settings;

/// The kinds and the namespaces, beside the instance's own, of an instance's children.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Inventory {
    /// The id of the set, the value of the children's `part-of` label.
    pub id: String,
    /// The kinds.
    pub group_kinds: BTreeSet<GroupKind>,
    /// The namespaces beside the instance's own.
    pub namespaces: BTreeSet<String>,
}

/// Computes the id of an instance's ApplySet from its name, namespace, kind and group.
pub fn applyset_id(instance: &Value) -> String {
    let (group, _) = split_api_version(meta::api_version(instance));
    let text = [
        meta::name(instance),
        meta::namespace(instance),
        meta::kind(instance),
        group,
    ]
    .join(".");
    format!(
        "applyset-{}-v1",
        URL_SAFE_NO_PAD.encode(Sha256::digest(text.as_bytes()))
    )
}

/// Splits an apiVersion into group and version.
pub(crate) fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.rsplit_once('/').unwrap_or(("", api_version))
}

// === impl Inventory ===

impl Inventory {
    /// An inventory of nothing.
    pub fn empty(instance: &Value) -> Self {
        Self {
            id: applyset_id(instance),
            ..Self::default()
        }
    }

    /// Reads what the instance's annotations say; absent ones say nothing.
    ///
    /// # Errors
    /// kro's text, when an annotation does not parse.
    pub fn read(instance: &Value) -> Result<Self, String> {
        let annotation = |key| meta::annotation(instance, key).unwrap_or_default();
        let group_kinds = parse_group_kinds(annotation(keys::ANNOTATION_APPLYSET_GROUP_KINDS))
            .map_err(|error| {
                format!(
                    "invalid {} annotation: {error}",
                    keys::ANNOTATION_APPLYSET_GROUP_KINDS
                )
            })?;
        let namespaces = parse_namespaces(annotation(keys::ANNOTATION_APPLYSET_NAMESPACES))
            .map_err(|error| {
                format!(
                    "invalid {} annotation: {error}",
                    keys::ANNOTATION_APPLYSET_NAMESPACES
                )
            })?;
        Ok(Self {
            id: applyset_id(instance),
            group_kinds,
            namespaces,
        })
    }

    /// Reads and checks the inventory of an instance that is to be deleted: nothing is guessed.
    ///
    /// # Errors
    /// kro's text, when something is missing, foreign or edited.
    pub fn validate(instance: &Value) -> Result<Self, String> {
        let want = applyset_id(instance);
        let id = meta::label(instance, keys::LABEL_APPLYSET_ID).unwrap_or_default();
        if id != want {
            let (got, want) = (quote(id), quote(&want));
            return Err(format!(
                "invalid {} label: got {got}, want {want}",
                keys::LABEL_APPLYSET_ID
            ));
        }
        let tooling =
            meta::annotation(instance, keys::ANNOTATION_APPLYSET_TOOLING).unwrap_or_default();
        if !tooling.starts_with(keys::TOOLING_PREFIX) {
            let tooling = quote(tooling);
            return Err(format!(
                "invalid {} annotation: {tooling} is not owned by kro",
                keys::ANNOTATION_APPLYSET_TOOLING
            ));
        }
        for key in [
            keys::ANNOTATION_APPLYSET_GROUP_KINDS,
            keys::ANNOTATION_APPLYSET_NAMESPACES,
        ] {
            if meta::annotation(instance, key).is_none() {
                return Err(format!("missing required {key} annotation"));
            }
        }
        let inventory = Self::read(instance)?;
        let want = inventory.hash();
        match meta::annotation(instance, keys::ANNOTATION_APPLYSET_HASH) {
            Some(got) if got != want => {
                let (got, want) = (quote(got), quote(&want));
                Err(format!(
                    "invalid {} annotation: got {got}, want {want}",
                    keys::ANNOTATION_APPLYSET_HASH
                ))
            }
            _ => Ok(inventory),
        }
    }

    /// Returns whether the instance carries any part of an inventory.
    pub fn is_present(instance: &Value) -> bool {
        meta::label(instance, keys::LABEL_APPLYSET_ID).is_some()
            || [
                keys::ANNOTATION_APPLYSET_TOOLING,
                keys::ANNOTATION_APPLYSET_GROUP_KINDS,
                keys::ANNOTATION_APPLYSET_NAMESPACES,
                keys::ANNOTATION_APPLYSET_HASH,
            ]
            .iter()
            .any(|key| meta::annotation(instance, key).is_some())
    }

    /// Adds what another inventory holds.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self {
            id: self.id.clone(),
            group_kinds: self
                .group_kinds
                .union(&other.group_kinds)
                .cloned()
                .collect(),
            namespaces: self.namespaces.union(&other.namespaces).cloned().collect(),
        }
    }

    /// The labels that the instance carries.
    pub fn labels(&self) -> Map<String, Value> {
        Map::from_iter([(keys::LABEL_APPLYSET_ID.to_owned(), json!(self.id))])
    }

    /// The annotations that the instance carries.
    pub fn annotations(&self, settings: &Settings) -> Map<String, Value> {
        Map::from_iter([
            (
                keys::ANNOTATION_APPLYSET_TOOLING.to_owned(),
                json!(format!("kro/{}", settings.kro_version)),
            ),
            (
                keys::ANNOTATION_APPLYSET_GROUP_KINDS.to_owned(),
                json!(self.group_kinds_text()),
            ),
            (
                keys::ANNOTATION_APPLYSET_NAMESPACES.to_owned(),
                json!(self.namespaces_text()),
            ),
            (
                keys::ANNOTATION_APPLYSET_HASH.to_owned(),
                json!(self.hash()),
            ),
        ])
    }

    /// The hash over id, kinds and namespaces.
    pub fn hash(&self) -> String {
        let text = [
            self.id.as_str(),
            &self.group_kinds_text(),
            &self.namespaces_text(),
        ]
        .join("\0");
        format!(
            "sha256:{}",
            URL_SAFE_NO_PAD.encode(Sha256::digest(text.as_bytes()))
        )
    }

    fn group_kinds_text(&self) -> String {
        let mut texts: Vec<String> = self
            .group_kinds
            .iter()
            .map(|group_kind| KindText(group_kind).to_string())
            .collect();
        texts.sort();
        texts.join(",")
    }

    fn namespaces_text(&self) -> String {
        let texts: Vec<&str> = self.namespaces.iter().map(String::as_str).collect();
        texts.join(",")
    }
}

/// Writes `Kind.group`, and `Kind` alone in the core group.
struct KindText<'a>(&'a GroupKind);

impl fmt::Display for KindText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.kind)?;
        if self.0.group.is_empty() {
            Ok(())
        } else {
            write!(f, ".{}", self.0.group)
        }
    }
}

fn parse_group_kinds(text: &str) -> Result<BTreeSet<GroupKind>, String> {
    let mut group_kinds = BTreeSet::new();
    if text.is_empty() {
        return Ok(group_kinds);
    }
    for entry in text.split(',').map(str::trim) {
        if entry.is_empty() {
            return Err("contains an empty group-kind".to_owned());
        }
        let (kind, group) = match entry.split_once('.') {
            Some((kind, group)) => (kind, Some(group)),
            None => (entry, None),
        };
        if kind.is_empty() || kind.contains([' ', '\t', '\r', '\n']) {
            return Err(format!("invalid kind {}", quote(kind)));
        }
        if let Some(group) = group {
            let problems = is_dns_subdomain(group);
            if !problems.is_empty() {
                return Err(format!(
                    "invalid group {}: {}",
                    quote(group),
                    problems.join(", ")
                ));
            }
        }
        group_kinds.insert(GroupKind {
            group: group.unwrap_or_default().to_owned(),
            kind: kind.to_owned(),
        });
    }
    Ok(group_kinds)
}

fn parse_namespaces(text: &str) -> Result<BTreeSet<String>, String> {
    let mut namespaces = BTreeSet::new();
    if text.is_empty() {
        return Ok(namespaces);
    }
    for entry in text.split(',').map(str::trim) {
        let problems = is_dns_label(entry);
        if !problems.is_empty() {
            return Err(format!(
                "invalid namespace {}: {}",
                quote(entry),
                problems.join(", ")
            ));
        }
        namespaces.insert(entry.to_owned());
    }
    Ok(namespaces)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance() -> Value {
        json!({
            "apiVersion": "kro.run/v1alpha1", "kind": "WebApp",
            "metadata": {"name": "demo", "namespace": "default"},
        })
    }

    fn inventory() -> Inventory {
        let kind = |group: &str, kind: &str| GroupKind {
            group: group.to_owned(),
            kind: kind.to_owned(),
        };
        Inventory {
            id: applyset_id(&instance()),
            group_kinds: [
                kind("apps", "Deployment"),
                kind("", "Service"),
                kind("", "ConfigMap"),
            ]
            .into(),
            namespaces: ["b".to_owned(), "a".to_owned()].into(),
        }
    }

    /// The instance with the inventory on it.
    fn written() -> Value {
        let mut instance = instance();
        instance["metadata"]["labels"] = Value::Object(inventory().labels());
        instance["metadata"]["annotations"] =
            Value::Object(inventory().annotations(&Settings::default()));
        instance
    }

    #[test]
    fn ids_and_hashes_are_kros() {
        // Computed apart: unpadded base64url of sha256("demo.default.WebApp.kro.run").
        assert_eq!(
            applyset_id(&instance()),
            "applyset-U3nBz-wI8LCAAPv9W1lKE2gDbOQJozhnzDnFuAazn9Y-v1"
        );
        let annotations = inventory().annotations(&Settings::default());
        assert_eq!(annotations[keys::ANNOTATION_APPLYSET_TOOLING], "kro/v0.9.4");
        assert_eq!(
            annotations[keys::ANNOTATION_APPLYSET_GROUP_KINDS],
            "ConfigMap,Deployment.apps,Service"
        );
        assert_eq!(annotations[keys::ANNOTATION_APPLYSET_NAMESPACES], "a,b");
        assert_eq!(
            annotations[keys::ANNOTATION_APPLYSET_HASH],
            "sha256:tRfKTQ5AuhiaYkJ5jXtiN_TxsB-Y8M9R3zi0fSf4BUI"
        );
    }

    #[test]
    fn what_is_written_is_read_back() {
        assert_eq!(Inventory::read(&written()), Ok(inventory()));
        assert_eq!(Inventory::validate(&written()), Ok(inventory()));
        assert!(Inventory::is_present(&written()) && !Inventory::is_present(&instance()));
        assert_eq!(
            Inventory::read(&instance()),
            Ok(Inventory::empty(&instance()))
        );
    }

    #[test]
    fn an_edited_inventory_is_not_deleted_by() {
        let annotation = |key: &str, value: Option<&str>| {
            let mut instance = written();
            let annotations = instance["metadata"]["annotations"]
                .as_object_mut()
                .expect("a map");
            match value {
                Some(value) => annotations.insert(key.to_owned(), json!(value)),
                None => annotations.remove(key),
            };
            instance
        };
        let mut relabelled = written();
        relabelled["metadata"]["labels"][keys::LABEL_APPLYSET_ID] = json!("x");
        let cases = [
            (
                relabelled,
                "invalid applyset.kubernetes.io/id label: got \"x\", want",
            ),
            (
                annotation(keys::ANNOTATION_APPLYSET_TOOLING, Some("kubectl/v1.30")),
                "invalid applyset.kubernetes.io/tooling annotation: \"kubectl/v1.30\" is not owned by kro",
            ),
            (
                annotation(keys::ANNOTATION_APPLYSET_NAMESPACES, None),
                "missing required applyset.kubernetes.io/additional-namespaces annotation",
            ),
            (
                annotation(keys::ANNOTATION_APPLYSET_GROUP_KINDS, Some("A,,B")),
                "invalid applyset.kubernetes.io/contains-group-kinds annotation: contains an empty group-kind",
            ),
            (
                annotation(keys::ANNOTATION_APPLYSET_GROUP_KINDS, Some("A.b_c")),
                "invalid applyset.kubernetes.io/contains-group-kinds annotation: invalid group \"b_c\": ",
            ),
            (
                annotation(keys::ANNOTATION_APPLYSET_NAMESPACES, Some("A")),
                "invalid applyset.kubernetes.io/additional-namespaces annotation: invalid namespace \"A\": ",
            ),
            (
                annotation(keys::ANNOTATION_APPLYSET_NAMESPACES, Some("a")),
                "invalid internal.kro.run/applyset-inventory-hash annotation: got ",
            ),
        ];
        for (instance, want) in cases {
            let error = Inventory::validate(&instance).expect_err(want);
            assert!(error.starts_with(want), "{error}");
        }
        // Inventories of earlier versions of kro have no hash.
        assert_eq!(
            Inventory::validate(&annotation(keys::ANNOTATION_APPLYSET_HASH, None)),
            Ok(inventory())
        );
    }
}
