//! What a kro has left in a spoke: definitions with their revisions, their instances, and what these are made of.
//!
//! # Invariants
//!
//! Everything here is the spoke's word. Names, uids, numbers and versions are checked before they name anything of the hub, and there are
//! no more objects of a sort than [`COUNT_MAX`]. Nothing is written.

use std::collections::{BTreeMap, BTreeSet};

use api::{
    GroupKind, GroupVersionKind, GroupVersionResource, kro::RgdSpec, kro::keys, meta,
    selector::Selector, validation, wheelhouse::origin,
};
use client::{Endpoint, ListRequest, discovery, discovery::Kinds};
use serde_json::Value;

use crate::{resources, state::target::Target};

/// The most objects of a sort that are taken over at once: all are in memory meanwhile.
pub(super) const COUNT_MAX: usize = 20_000;

/// The most definitions: each is compiled for a plan.
const DEFINITION_COUNT_MAX: usize = 1000;

/// The highest number of a revision: the next one is still a number.
const REVISION_MAX: i64 = 999_999_999;

/// The longest name that an API server gives. Those of RBAC objects have colons in them, and are no DNS names.
const NAME_BYTES_MAX: usize = 253;

/// What a kro has left.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) definitions: Vec<Definition>,
    /// Children by the id of their ApplySet.
    pub(super) children: BTreeMap<String, Vec<Child>>,
    /// Which versions of kro labels name, and how often.
    pub(super) versions: BTreeMap<String, usize>,
    /// What cannot be taken over whatever the hub says.
    pub(super) troubles: Vec<String>,
}

/// A definition as the spoke has it.
#[derive(Debug)]
pub(super) struct Definition {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) object: Value,
    /// What it says; `None` where that cannot be read, which kro refuses too.
    pub(super) spec: Option<RgdSpec>,
    /// Its revisions, the oldest first.
    pub(super) revisions: Vec<Value>,
    pub(super) instances: Vec<Value>,
}

/// Something that was made for an instance.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) gvk: GroupVersionKind,
    pub(super) gvr: GroupVersionResource,
    pub(super) object: Value,
}

// === impl Definition ===

impl Definition {
    /// Returns where its instances are.
    pub(super) fn endpoint(&self) -> Option<GroupVersionResource> {
        self.spec.as_ref().map(graph::instance_endpoint)
    }

    /// Returns the kind of its instances, as `Kind.group`.
    pub(super) fn kind(&self) -> String {
        let Some((spec, gvr)) = self.spec.as_ref().zip(self.endpoint()) else {
            return String::new();
        };
        format!("{}.{}", spec.schema.kind, gvr.group)
    }

    /// Returns what kro says of it.
    pub(super) fn state(&self) -> &str {
        self.object["status"]["state"].as_str().unwrap_or_default()
    }
}

// === impl Found ===

impl Found {
    /// Returns the version of kro that most labels name.
    pub(super) fn version(&self) -> &str {
        let most = self.versions.iter().max_by_key(|(_, count)| **count);
        most.map_or("", |(version, _)| version)
    }

    /// Returns what was made for an instance, as far as it bears its mark: its ApplySet and its uid.
    pub(super) fn children_of(&self, instance: &Value) -> impl Iterator<Item = &Child> {
        let uid = meta::uid(instance).to_owned();
        let of_set = self.children.get(&graph::applyset_id(instance));
        of_set
            .into_iter()
            .flatten()
            .filter(move |child| meta::label(&child.object, keys::LABEL_INSTANCE_ID) == Some(&uid))
    }

    /// Takes no more objects than can be taken over at once.
    fn bounded(&mut self, what: &str, mut objects: Vec<Value>, count_max: usize) -> Vec<Value> {
        let count = objects.len();
        if count > count_max {
            let trouble =
                format!("{count} {what} are more than the {count_max} that can be taken over");
            self.troubles.push(trouble);
            objects.truncate(count_max);
        }
        objects
    }

    fn note_version(&mut self, version: Option<&str>) {
        let is_label = |text: &&str| validation::is_label_value(text).is_empty();
        if let Some(version) = version.filter(|text| !text.is_empty()).filter(is_label) {
            *self.versions.entry(version.to_owned()).or_default() += 1;
        }
    }
}

/// Reads what there is. A spoke without kro's kinds has nothing.
pub(super) async fn read(target: &Target) -> Result<Found, client::Error> {
    let mut found = Found::default();
    let Some(definitions) = list(target, &resources::definitions(), None).await? else {
        return Ok(found);
    };
    let definitions = found.bounded("definitions", definitions, DEFINITION_COUNT_MAX);
    let revisions = list(target, &resources::revisions(), None).await?;
    let revisions = found.bounded("revisions", revisions.unwrap_or_default(), COUNT_MAX);
    let mut revisions = by_definition(revisions, &mut found);
    for object in definitions {
        let name = meta::name(&object).to_owned();
        let trouble = refused("ResourceGraphDefinition", &object);
        if let Some(trouble) = trouble.or_else(|| beyond_numbers(&object)) {
            found.troubles.push(trouble);
            continue;
        }
        let mut revisions = revisions.remove(&name).unwrap_or_default();
        revisions.sort_by_key(|revision| revision["spec"]["revision"].as_i64());
        found.definitions.push(Definition {
            uid: meta::uid(&object).to_owned(),
            spec: RgdSpec::from_value(&object["spec"]).ok(),
            name,
            object,
            revisions,
            instances: Vec::new(),
        });
    }
    found
        .definitions
        .sort_by(|one, other| one.name.cmp(&other.name));
    read_instances(target, &mut found).await?;
    read_children(target, &mut found).await?;
    Ok(found)
}

/// Sorts revisions by the definition that they are of.
fn by_definition(revisions: Vec<Value>, found: &mut Found) -> BTreeMap<String, Vec<Value>> {
    let mut sorted: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for revision in revisions {
        found.note_version(meta::label(&revision, keys::LABEL_KRO_VERSION));
        let of = revision["spec"]["snapshot"]["name"].as_str();
        let of = of.unwrap_or_default().to_owned();
        let trouble = refused("GraphRevision", &revision);
        if let Some(trouble) = trouble.or_else(|| misnamed(&of, &revision)) {
            found.troubles.push(trouble);
            continue;
        }
        sorted.entry(of).or_default().push(revision);
    }
    sorted
}

/// Reads the instances of definitions that kro has made a CRD for: any other kind that one names is somebody else's.
async fn read_instances(target: &Target, found: &mut Found) -> Result<(), client::Error> {
    let crds = list(target, &resources::crds(), owned()).await?;
    let crds = found.bounded("CRDs", crds.unwrap_or_default(), COUNT_MAX);
    let owners: BTreeMap<&str, &str> = crds
        .iter()
        .filter_map(|crd| Some((meta::name(crd), meta::label(crd, keys::LABEL_RGD_NAME)?)))
        .collect();
    for index in 0..found.definitions.len() {
        let Some(gvr) = found.definitions[index].endpoint().filter(is_endpoint) else {
            continue;
        };
        let owner = owners.get(gvr.group_resource().to_string().as_str());
        if owner != Some(&found.definitions[index].name.as_str()) {
            continue;
        }
        let kind = found.definitions[index].kind();
        let objects = list(target, &gvr, None).await?.unwrap_or_default();
        for object in found.bounded(&kind, objects, COUNT_MAX) {
            found.note_version(meta::label(&object, keys::LABEL_KRO_VERSION));
            if let Some(trouble) = refused(&kind, &object) {
                found.troubles.push(trouble);
            } else {
                found.definitions[index].instances.push(object);
            }
        }
    }
    Ok(())
}

/// Whether an endpoint can be named in a path: a definition that kro refuses may say anything.
fn is_endpoint(gvr: &GroupVersionResource) -> bool {
    validation::is_dns_subdomain(&gvr.group).is_empty()
        && validation::is_dns_label(&gvr.version).is_empty()
        && validation::is_dns_label(&gvr.resource).is_empty()
}

/// Reads what instances are made of, in the kinds that their inventories name.
async fn read_children(target: &Target, found: &mut Found) -> Result<(), client::Error> {
    let instances = found.definitions.iter().flat_map(|it| &it.instances);
    let mut kinds: BTreeSet<GroupKind> = BTreeSet::new();
    let mut troubles = Vec::new();
    for instance in instances.filter(|it| graph::Inventory::is_present(it)) {
        match graph::Inventory::validate(instance) {
            Ok(inventory) => kinds.extend(inventory.group_kinds),
            Err(reason) => troubles.push(format!(
                "{} {}: {reason}",
                meta::kind(instance),
                place(instance)
            )),
        }
    }
    found.troubles.extend(troubles);
    if kinds.is_empty() {
        return Ok(());
    }
    let served = discovery::fetch(&target.dynamic, None).await?;
    let mut count = 0_usize;
    for kind in kinds {
        let Some((gvk, gvr)) = serving(&served, &kind) else {
            let trouble = format!("kind {kind} of children is not served by the spoke");
            found.troubles.push(trouble);
            continue;
        };
        let Some(objects) = list(target, &gvr, owned()).await? else {
            continue;
        };
        count += objects.len();
        for mut object in objects {
            let Some(set) = meta::label(&object, keys::LABEL_APPLYSET_PART_OF) else {
                continue;
            };
            if let Some(trouble) = refused(&gvk.kind, &object) {
                found.troubles.push(trouble);
                continue;
            }
            let set = set.to_owned();
            found.note_version(meta::label(&object, keys::LABEL_KRO_VERSION));
            // Nothing but what a ledger names is kept of it.
            object = serde_json::json!({"metadata": {
                "name": object["metadata"]["name"], "namespace": object["metadata"]["namespace"],
                "uid": object["metadata"]["uid"], "labels": object["metadata"]["labels"],
                "annotations": {keys::ANNOTATION_APPLY_ORDER: meta::annotation(&object, keys::ANNOTATION_APPLY_ORDER)},
            }});
            let (gvk, gvr) = (gvk.clone(), gvr.clone());
            let child = Child { gvk, gvr, object };
            found.children.entry(set).or_default().push(child);
        }
    }
    if count > COUNT_MAX {
        let trouble =
            format!("{count} children are more than the {COUNT_MAX} that can be taken over");
        found.troubles.push(trouble);
    }
    Ok(())
}

/// Selects what kro has made.
fn owned() -> Option<Selector> {
    Selector::parse(&format!("{}=true", keys::LABEL_OWNED)).ok()
}

/// Returns where a kind is served, in the version that its server prefers.
fn serving(served: &Kinds, kind: &GroupKind) -> Option<(GroupVersionKind, GroupVersionResource)> {
    let versions = served.versions.iter().filter(|it| it.group == kind.group);
    versions
        .map(|version| version.with_kind(kind.kind.clone()))
        .find_map(|gvk| {
            let info = served.kind(&gvk)?;
            Some((gvk, info.gvr.clone()))
        })
}

/// Lists all objects of a kind; `None` where it is not served.
async fn list(
    target: &Target,
    gvr: &GroupVersionResource,
    label_selector: Option<Selector>,
) -> Result<Option<Vec<Value>>, client::Error> {
    let endpoint = Endpoint {
        scope: None,
        gvr: gvr.clone(),
        namespace: None,
    };
    let request = ListRequest {
        label_selector,
        ..ListRequest::default()
    };
    match target.dynamic.list(&endpoint, &request).await {
        Ok(listed) => Ok(Some(listed.items)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns why an object is not taken over, whatever it says.
fn refused(kind: &str, object: &Value) -> Option<String> {
    let (name, namespace) = (meta::name(object), meta::namespace(object));
    let is_named = !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && validation::is_path_segment(name).is_empty()
        && (namespace.is_empty() || validation::is_dns_label(namespace).is_empty())
        && origin::is_uid(meta::uid(object));
    (!is_named).then(|| {
        let shown: String = name.chars().take(64).collect();
        format!("{kind} {shown:?} has a name, a namespace or a uid that no API server gives")
    })
}

/// Returns why a definition's count of revisions is none.
fn beyond_numbers(definition: &Value) -> Option<String> {
    let issued = &definition["status"]["lastIssuedRevision"];
    let is_number = issued.is_null()
        || issued
            .as_i64()
            .is_some_and(|it| (0..=REVISION_MAX).contains(&it));
    let name = meta::name(definition);
    (!is_number).then(|| {
        format!("ResourceGraphDefinition {name:?} counts revisions in another way than kro")
    })
}

/// Returns why a revision is not one that kro made: the hub finds those of a definition by their names, and makes more of them.
fn misnamed(of: &str, revision: &Value) -> Option<String> {
    let number = revision["spec"]["revision"].as_i64().unwrap_or_default();
    let is_kros = (1..=REVISION_MAX).contains(&number)
        && meta::name(revision) == graph::revision_name(of, number);
    let name = meta::name(revision);
    (!is_kros)
        .then(|| format!("GraphRevision {name:?} is named or numbered in another way than by kro"))
}

/// Names an object for people.
pub(super) fn place(object: &Value) -> String {
    let (namespace, name) = (meta::namespace(object), meta::name(object));
    if namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}/{name}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const UID: &str = "0a1b2c3d-1234-4abc-9def-0123456789ab";

    #[test]
    fn only_what_an_api_server_gives_is_taken_up() {
        for (name, namespace, uid, want) in [
            ("plain", "", UID, true),
            ("system:node:a", "default", UID, true),
            ("", "", UID, false),
            ("a/../b", "", UID, false),
            ("..", "", UID, false),
            ("a", "a/b", UID, false),
            ("a", "", "u", false),
            ("a", "", "../inventories/b", false),
        ] {
            let object = json!({"metadata": {"name": name, "namespace": namespace, "uid": uid}});
            assert_eq!(
                refused("Kind", &object).is_none(),
                want,
                "{name} {namespace} {uid}"
            );
        }
    }

    #[test]
    fn revisions_bear_the_names_and_numbers_that_kro_gives() {
        for (name, number, want) in [
            ("a-r00001", json!(1), true),
            ("b-r00001", json!(1), false),
            ("a-r00002", json!(1), false),
            ("a-r00000", json!(0), false),
            ("a-r9223372036854775807", json!(i64::MAX), false),
            ("a-r00001", json!("1"), false),
        ] {
            let revision = json!({"metadata": {"name": name}, "spec": {"revision": number}});
            assert_eq!(misnamed("a", &revision).is_none(), want, "{name} {number}");
        }
        for (issued, want) in [
            (json!(null), true),
            (json!(3), true),
            (json!(-1), false),
            (json!(i64::MAX), false),
            (json!("3"), false),
        ] {
            let definition =
                json!({"metadata": {"name": "a"}, "status": {"lastIssuedRevision": issued}});
            assert_eq!(beyond_numbers(&definition).is_none(), want, "{issued}");
        }
    }
}
