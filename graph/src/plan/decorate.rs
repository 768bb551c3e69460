//! What kro writes on every child: who it belongs to, and in which wave it is deleted. Where the definition asks for it, also an
//! ownerReference, which kro does not write.
//!
//! Source: kro `pkg/controller/instance/resources.go` applyDecoratorMetadata, `pkg/metadata/labels.go`.

use api::kro::keys;
use api::meta;
use api::wheelhouse::keys::{ANNOTATION_DELETION_POLICY, ANNOTATION_ORIGIN};
use serde_json::{Map, Value, json};

use super::PlanInput;
use crate::deletion::ChildPolicy;
use crate::graph::{CompiledGraph, Node};
use crate::inventory::{applyset_id, split_api_version};

/// What begins the keys that only the hub writes.
const HUB_PREFIX: &str = "internal.wheelhouse.dev/";

/// What all children of an instance share.
pub(super) struct Decorator<'a> {
    labels: Vec<(&'a str, String)>,
    owner: Option<Owner<'a>>,
    /// Whether deletion policies count.
    has_policies: bool,
}

/// The instance as an owner.
struct Owner<'a> {
    reference: Value,
    /// The namespace in which it may own something; `None` for one that may everywhere.
    ///
    /// Source: kubernetes `pkg/controller/garbagecollector/garbagecollector.go`: an owner in another namespace counts as absent.
    namespace: Option<&'a str>,
}

// === impl Decorator ===

impl<'a> Decorator<'a> {
    pub(super) fn new(graph: &CompiledGraph, input: &PlanInput<'a>) -> Self {
        let PlanInput {
            instance,
            settings,
            observed,
        } = *input;
        let (group, version) = split_api_version(meta::api_version(instance));
        let mut labels: Vec<(&str, String)> = vec![
            (keys::LABEL_INSTANCE_ID, meta::uid(instance).to_owned()),
            (keys::LABEL_INSTANCE_NAME, meta::name(instance).to_owned()),
            (keys::LABEL_INSTANCE_GROUP, group.to_owned()),
            (keys::LABEL_INSTANCE_VERSION, version.to_owned()),
            (keys::LABEL_INSTANCE_KIND, meta::kind(instance).to_owned()),
            (keys::LABEL_MANAGED_BY, keys::MANAGED_BY_KRO.to_owned()),
            (keys::LABEL_OWNED, "true".to_owned()),
            (keys::LABEL_KRO_VERSION, settings.kro_version.clone()),
            (keys::LABEL_APPLYSET_PART_OF, applyset_id(instance)),
        ];
        if graph.namespaced {
            labels.push((
                keys::LABEL_INSTANCE_NAMESPACE,
                meta::namespace(instance).to_owned(),
            ));
        }
        labels.extend(
            settings
                .extra_labels
                .iter()
                .map(|(key, value)| (key.as_str(), value.clone())),
        );
        let owner = observed.owner_uid().map(|uid| Owner {
            reference: json!({
                "apiVersion": meta::api_version(instance),
                "kind": meta::kind(instance),
                "name": meta::name(instance),
                "uid": uid,
            }),
            namespace: graph.namespaced.then(|| meta::namespace(instance)),
        });
        Self {
            labels,
            owner,
            has_policies: settings.compile.deletion_policy,
        }
    }

    /// Decorates an object; `item` is its index and the size of its collection, `live` what stands in its place.
    pub(super) fn decorate(
        &self,
        node: &Node,
        object: &mut Value,
        item: Option<(usize, usize)>,
        live: Option<&Value>,
    ) {
        let metadata = meta::metadata_mut(object);
        for part in ["labels", "annotations"] {
            // Who wrote an object, for one, is not for a template or an instance to say.
            let is_hubs = |key: &str| key.starts_with(HUB_PREFIX) || key == ANNOTATION_ORIGIN;
            map_in(metadata, part).retain(|key, _| !is_hubs(key));
        }
        let stays = self.has_policies && stays(metadata, live);
        let labels = map_in(metadata, "labels");
        let mut put = |key: &str, value: String| {
            labels.insert(key.to_owned(), Value::String(value));
        };
        for (key, value) in &self.labels {
            put(key, value.clone());
        }
        put(keys::LABEL_NODE_ID, node.id.to_string());
        if let Some((index, count)) = item {
            put(keys::LABEL_COLLECTION_INDEX, index.to_string());
            put(keys::LABEL_COLLECTION_SIZE, count.to_string());
        }
        // The garbage collector would take away what is to stay when the instance goes, and whenever somebody deletes its mirror.
        if let Some(owner) = self.owner.as_ref().filter(|_| !stays) {
            owner.put(metadata);
        }
        let annotations = map_in(metadata, "annotations");
        let order = Value::String(node.apply_order.to_string());
        annotations.insert(keys::ANNOTATION_APPLY_ORDER.to_owned(), order);
    }
}

// === impl Owner ===

impl Owner<'_> {
    /// Adds the instance to the owners of an object, if it may be one.
    fn put(&self, metadata: &mut Map<String, Value>) {
        let namespace = metadata.get("namespace").and_then(Value::as_str);
        if self.namespace.is_some() && namespace != self.namespace {
            return;
        }
        let owners = metadata
            .entry("ownerReferences".to_owned())
            .or_insert_with(|| Value::Array(Vec::new()));
        // A template's own owners stay; what is no list is the API server's to refuse.
        if let Some(owners) = owners.as_array_mut() {
            owners.push(self.reference.clone());
        }
    }
}

/// Whether an object stays when nothing wants it any more: as its template says, and where that says nothing, the live object.
fn stays(metadata: &Map<String, Value>, live: Option<&Value>) -> bool {
    let said = |annotations: &Value| {
        let policy = annotations[ANNOTATION_DELETION_POLICY].as_str();
        policy.map(|policy| policy != ChildPolicy::Delete.as_str())
    };
    let of_template = metadata.get("annotations").and_then(said);
    let of_live = || live.and_then(|live| said(&live["metadata"]["annotations"]));
    of_template.or_else(of_live).unwrap_or_default()
}

/// The map of a field, made where there is none.
fn map_in<'m>(metadata: &'m mut Map<String, Value>, name: &str) -> &'m mut Map<String, Value> {
    let place = metadata
        .entry(name.to_owned())
        .or_insert_with(|| Value::Object(Map::new()));
    if !place.is_object() {
        *place = Value::Object(Map::new());
    }
    place.as_object_mut().expect("it was just made an object")
}
