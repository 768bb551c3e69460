//! What a spoke serves: the built-in kinds, and those of its definitions once they are established.

use std::sync::{Arc, LazyLock};

use api::{GroupVersionResource, crd};
use schema::{Schema, builtin};
use serde_json::{Value, json};

use super::{Key, Spoke};

/// A custom kind's schema: anything goes.
static ANYTHING: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    Schema::from_openapi(&schema).unwrap_or_else(|_| builtin::object_meta())
});

/// A kind as it is served.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    pub(crate) api_version: String,
    #[expect(clippy::struct_field_names, reason = "the word of the wire")]
    pub(crate) kind: String,
    pub(crate) has_status: bool,
    pub(crate) is_custom: bool,
    pub(crate) schema: Arc<Schema>,
}

/// Where a request goes.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) version: String,
    pub(crate) key: Key,
    pub(crate) subresource: String,
}

// === impl Place ===

impl Place {
    /// Reads a path.
    pub(crate) fn of(path: &str) -> Option<Self> {
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, version, rest) = match segments.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let (namespace, resource, name, subresource) = match rest {
            [resource] => ("", *resource, "", ""),
            ["namespaces", name] => ("", "namespaces", *name, ""),
            ["namespaces", name, "status"] => ("", "namespaces", *name, "status"),
            ["namespaces", namespace, resource] => (*namespace, *resource, "", ""),
            ["namespaces", namespace, resource, name] => (*namespace, *resource, *name, ""),
            ["namespaces", namespace, resource, name, subresource] => {
                (*namespace, *resource, *name, *subresource)
            }
            [resource, name] => ("", *resource, *name, ""),
            [resource, name, subresource] => ("", *resource, *name, *subresource),
            _ => return None,
        };
        Some(Self {
            version: version.to_owned(),
            key: Key::new(group, resource, namespace, name),
            subresource: subresource.to_owned(),
        })
    }
}

impl Spoke {
    /// Finds the kind that is served at a place.
    pub(crate) fn kind_at(&self, place: &Place) -> Option<Kind> {
        let Key {
            group, resource, ..
        } = &place.key;
        let gvr = GroupVersionResource::new(group, &place.version, resource);
        let catalog = builtin::catalog();
        if let Some(found) = catalog.by_resource(&gvr) {
            return Some(Kind {
                api_version: found.gvk().group_version().to_string(),
                kind: found.kind.clone(),
                has_status: found.subresources.iter().any(|it| it.name == "status"),
                is_custom: false,
                schema: catalog.schema(&found.gvk())?,
            });
        }
        if *group == crd::GROUP && resource == crd::RESOURCE {
            return Some(Kind {
                api_version: format!("{}/{}", crd::GROUP, crd::VERSION),
                kind: "CustomResourceDefinition".to_owned(),
                has_status: true,
                is_custom: true,
                schema: Arc::clone(&ANYTHING),
            });
        }
        let key = Key::new(
            crd::GROUP,
            crd::RESOURCE,
            "",
            &format!("{resource}.{group}"),
        );
        let definition = self.get(&key)?;
        if !is_established(&definition) {
            return None;
        }
        let versions = definition["spec"]["versions"].as_array()?;
        let version = versions
            .iter()
            .find(|version| version["name"] == place.version.as_str())?;
        Some(Kind {
            api_version: format!("{group}/{}", place.version),
            kind: definition["spec"]["names"]["kind"].as_str()?.to_owned(),
            has_status: !version["subresources"]["status"].is_null(),
            is_custom: true,
            schema: Arc::clone(&ANYTHING),
        })
    }

    /// Returns whether objects of a custom kind can be made.
    pub fn serves(&self, key: &Key) -> bool {
        let name = format!("{}.{}", key.resource, key.group);
        let definition = self.get(&Key::new(crd::GROUP, crd::RESOURCE, "", &name));
        definition.is_some_and(|definition| is_established(&definition))
    }

    /// Establishes a definition, as the cluster does after a while.
    pub fn establish(&self, key: &Key) {
        let Some(definition) = self.get(key) else {
            return;
        };
        if is_established(&definition) {
            return;
        }
        let mut definition = (*definition).clone();
        let condition = |type_: &str| {
            json!({"type": type_, "status": "True", "reason": "Simulated", "message": "",
                "lastTransitionTime": super::state::now()})
        };
        definition["status"]["conditions"] =
            json!([condition("NamesAccepted"), condition("Established")]);
        self.put(key.clone(), definition, super::Writer::System);
    }

    /// Lists the definitions that wait to be established.
    pub fn definitions_pending(&self) -> Vec<Key> {
        self.find(|key, object| {
            key.group == crd::GROUP && key.resource == crd::RESOURCE && !is_established(object)
        })
    }

    /// Returns what discovery says of the groups that a hub may look for.
    #[expect(
        clippy::unused_self,
        reason = "what a spoke says, though all say the same"
    )]
    pub(crate) fn discovery(&self, of_core: bool) -> Value {
        let mut groups: Vec<Value> = Vec::new();
        if of_core {
            groups.push(group(
                "",
                "v1",
                &[
                    ("namespaces", "Namespace", "Cluster"),
                    ("configmaps", "ConfigMap", "Namespaced"),
                    ("secrets", "Secret", "Namespaced"),
                ],
            ));
        } else {
            groups.push(group(
                "rbac.authorization.k8s.io",
                "v1",
                &[("clusterroles", "ClusterRole", "Cluster")],
            ));
            groups.push(group(
                crd::GROUP,
                crd::VERSION,
                &[(crd::RESOURCE, "CustomResourceDefinition", "Cluster")],
            ));
        }
        json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": groups})
    }
}

fn group(name: &str, version: &str, resources: &[(&str, &str, &str)]) -> Value {
    let resources: Vec<Value> = resources
        .iter()
        .map(|(resource, kind, scope)| {
            json!({"resource": resource, "scope": scope, "singularResource": kind.to_lowercase(),
                "responseKind": {"group": name, "version": version, "kind": kind},
                "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"]})
        })
        .collect();
    json!({"metadata": {"name": name}, "versions": [
        {"version": version, "freshness": "Current", "resources": resources}]})
}

fn is_established(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|it| it["type"] == "Established" && it["status"] == "True")
}
