//! What the server stores, and how it answers while it is honest.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http::{Method, Response};
use serde_json::{Value, json};
use tokio::sync::broadcast::{self, error::RecvError};

use super::{Body, Seen, Shared, bytes, lock, reply, status, stream};

/// Changes that a watch may be behind.
const CHANGE_COUNT_MAX: usize = 4096;

/// The objects, by path.
#[derive(Debug)]
pub(crate) struct Store {
    objects: Mutex<State>,
    /// Whether objects tell who has applied them.
    keeps_managers: AtomicBool,
    changes: broadcast::Sender<Change>,
}

/// The version before any object. What a mode makes up has earlier ones, so that whoever watches from there is told what there is.
const BEFORE_FIRST: u64 = 100;

#[derive(Debug, Default)]
struct State {
    version: u64,
    /// Never set back: a uid is never given twice.
    uid_count: u64,
    objects: BTreeMap<String, Arc<Value>>,
}

#[derive(Debug, Clone)]
struct Change {
    place: Place,
    type_: &'static str,
    object: Arc<Value>,
}

/// What a path means.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    /// `/api/v1` or `/apis/group/version`.
    base: String,
    resource: String,
    namespace: String,
    name: String,
}

// === impl Store ===

impl Store {
    pub(crate) fn new(uid: &str) -> Self {
        let store = Self {
            objects: Mutex::new(State {
                version: BEFORE_FIRST,
                ..State::default()
            }),
            keeps_managers: AtomicBool::new(true),
            changes: broadcast::Sender::new(CHANGE_COUNT_MAX),
        };
        for name in ["default", "kube-system"] {
            let uid = if name == "kube-system" { uid } else { "" };
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": name, "uid": uid}, "status": {"phase": "Active"}});
            store.put(&format!("/api/v1/namespaces/{name}"), namespace);
        }
        store
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        lock(&self.objects).objects.keys().cloned().collect()
    }

    pub(crate) fn set_back(&self, version: u64) {
        lock(&self.objects).version = version;
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        let object = lock(&self.objects).objects.get(path).cloned();
        object.map(Arc::unwrap_or_clone)
    }

    /// Counts the writes.
    pub(crate) fn write_count(&self) -> u64 {
        lock(&self.objects).version.saturating_sub(BEFORE_FIRST)
    }

    /// Counts the objects of a resource.
    pub(crate) fn count(&self, resource: &str) -> usize {
        let segment = format!("/{resource}/");
        let state = lock(&self.objects);
        state
            .objects
            .keys()
            .filter(|path| path.contains(&segment))
            .count()
    }

    /// Streams the objects that are written from now on. One that falls behind misses some.
    pub(crate) fn written(&self) -> impl Stream<Item = Arc<Value>> + use<> {
        futures::stream::unfold(self.changes.subscribe(), |mut changes| async {
            loop {
                match changes.recv().await {
                    Ok(change) if change.type_ != "DELETED" => {
                        return Some((change.object, changes));
                    }
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return None,
                }
            }
        })
    }

    /// Stores an object with a version of its own.
    pub(crate) fn put(&self, path: &str, mut object: Value) -> Arc<Value> {
        let mut state = lock(&self.objects);
        state.version += 1;
        let before = state.objects.get(path).cloned();
        let metadata = &mut object["metadata"];
        metadata["resourceVersion"] = json!(state.version.to_string());
        let known = before.as_ref().map_or(&Value::Null, |it| &it["metadata"]);
        state.uid_count += 1;
        let uid = format!("00000000-0000-4000-8000-{:012x}", state.uid_count);
        for (key, made) in [
            ("uid", json!(uid)),
            ("creationTimestamp", json!("2026-01-01T00:00:00Z")),
            ("generation", json!(1)),
        ] {
            if !known[key].is_null() {
                metadata[key] = known[key].clone();
            } else if metadata[key].is_null() || metadata[key] == "" {
                metadata[key] = made;
            }
        }
        if object["kind"] == "CustomResourceDefinition" {
            let is = |type_: &str| {
                json!({"type": type_, "status": "True", "reason": "A", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"})
            };
            object["status"] = json!({"conditions": [is("NamesAccepted"), is("Established")]});
        }
        let object = Arc::new(object);
        state.objects.insert(path.to_owned(), Arc::clone(&object));
        let type_ = if before.is_some() {
            "MODIFIED"
        } else {
            "ADDED"
        };
        self.tell(path, type_, &object);
        object
    }

    /// Lets objects tell who has applied them, or takes that from all of them.
    pub(crate) fn keep_managers(&self, is_kept: bool) {
        self.keeps_managers.store(is_kept, Ordering::Relaxed);
        if is_kept {
            return;
        }
        for path in self.paths() {
            let Some(mut object) = self.get(&path) else {
                continue;
            };
            if let Some(metadata) = object["metadata"].as_object_mut()
                && metadata.remove("managedFields").is_some()
            {
                self.put(&path, object);
            }
        }
    }

    fn remove(&self, path: &str) -> Option<Arc<Value>> {
        let mut state = lock(&self.objects);
        let mut object = Arc::unwrap_or_clone(state.objects.remove(path)?);
        state.version += 1;
        object["metadata"]["resourceVersion"] = json!(state.version.to_string());
        let object = Arc::new(object);
        self.tell(path, "DELETED", &object);
        Some(object)
    }

    fn tell(&self, path: &str, type_: &'static str, object: &Arc<Value>) {
        if let Some(place) = Place::of(path) {
            // Nobody may be watching.
            drop(self.changes.send(Change {
                place,
                type_,
                object: Arc::clone(object),
            }));
        }
    }

    fn list(&self, place: &Place, query: &str) -> (Vec<Arc<Value>>, String) {
        let state = lock(&self.objects);
        let objects = state.objects.iter();
        let items = objects
            .filter(|(path, object)| {
                Place::of(path).is_some_and(|it| it.is_in(place)) && is_selected(object, query)
            })
            .map(|(_, object)| Arc::clone(object))
            .collect();
        (items, state.version.to_string())
    }
}

// === impl Place ===

impl Place {
    fn of(path: &str) -> Option<Self> {
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (base, rest) = match segments.as_slice() {
            ["api", version, rest @ ..] => (format!("/api/{version}"), rest),
            ["apis", group, version, rest @ ..] => (format!("/apis/{group}/{version}"), rest),
            _ => return None,
        };
        let (namespace, resource, name) = match rest {
            [resource] => ("", *resource, ""),
            ["namespaces", name] => ("", "namespaces", *name),
            ["namespaces", namespace, resource] => (*namespace, *resource, ""),
            ["namespaces", namespace, resource, name, ..] => (*namespace, *resource, *name),
            [resource, name, ..] => ("", *resource, *name),
            [] => return None,
        };
        Some(Self {
            base,
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }

    fn is_in(&self, collection: &Self) -> bool {
        self.base == collection.base
            && self.resource == collection.resource
            && (collection.namespace.is_empty() || self.namespace == collection.namespace)
    }

    fn path(&self) -> String {
        let Self {
            base,
            resource,
            namespace,
            name,
        } = self;
        if namespace.is_empty() {
            format!("{base}/{resource}/{name}")
        } else {
            format!("{base}/namespaces/{namespace}/{resource}/{name}")
        }
    }
}

/// Answers as an API server does.
pub(crate) fn answer(shared: &Arc<Shared>, asked: &Seen, body: &Bytes) -> Response<Body> {
    let (path, query) = asked.parts();
    let discovery = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {}, "items": []});
    match path {
        "/version" => return reply(200, &json!({"gitVersion": "v1.36.0-fake"})),
        "/api" => return reply(200, &core()),
        "/apis" => return reply(200, &discovery),
        "/openapi/v3" => return reply(200, &json!({"paths": {}})),
        _ => {}
    }
    let Some(place) = Place::of(path) else {
        return status(404, "NotFound");
    };
    let value = || serde_json::from_slice::<Value>(body).unwrap_or_default();
    let store = &shared.store;
    match (&asked.method, place.name.is_empty()) {
        (&Method::GET, true) if query.contains("watch=true") => watch(shared, place, query),
        (&Method::GET, true) => {
            let (items, version) = store.list(&place, query);
            let kind = items.first().and_then(|it| it["kind"].as_str());
            let kind = kind.unwrap_or("Object");
            let items: Vec<String> = items.iter().map(ToString::to_string).collect();
            let list = format!(
                r#"{{"kind":"{kind}List","apiVersion":"v1","metadata":{{"resourceVersion":"{version}"}},"items":[{}]}}"#,
                items.join(",")
            );
            bytes(200, list.into())
        }
        (&Method::GET, false) => match store.get(&place.path()) {
            Some(object) => reply(200, &object),
            None => status(404, "NotFound"),
        },
        (&Method::POST, true) => {
            let object = value();
            let mut place = place;
            object["metadata"]["name"]
                .as_str()
                .unwrap_or("unnamed")
                .clone_into(&mut place.name);
            reply(201, &store.put(&place.path(), object))
        }
        (&Method::PUT, false) => reply(200, &store.put(&place.path(), value())),
        (&Method::PATCH, false) => patch(shared, asked, &place, &value()),
        (&Method::DELETE, false) => delete(shared, &place),
        _ => status(405, "MethodNotAllowed"),
    }
}

fn core() -> Value {
    let resource = |name: &str, kind: &str, scope: &str| {
        json!({"resource": name, "scope": scope, "singularResource": kind.to_lowercase(),
            "responseKind": {"group": "", "version": "v1", "kind": kind},
            "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"]})
    };
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
    "items": [{"metadata": {"name": ""}, "versions": [{"version": "v1", "freshness": "Current", "resources": [
        resource("namespaces", "Namespace", "Cluster"),
        resource("configmaps", "ConfigMap", "Namespaced"),
    ]}]}]})
}

fn patch(shared: &Arc<Shared>, asked: &Seen, place: &Place, patch: &Value) -> Response<Body> {
    let store = &shared.store;
    let path = place.path();
    let media_type = asked.headers.get("content-type");
    let is_json = media_type.is_some_and(|it| it == "application/json-patch+json");
    let is_apply = media_type.is_some_and(|it| it == "application/apply-patch+yaml");
    let mut object = match store.get(&path) {
        Some(object) => object,
        None if is_apply => json!({}),
        None => return status(404, "NotFound"),
    };
    if is_json {
        for operation in patch.as_array().into_iter().flatten() {
            edit(&mut object, operation);
        }
    } else {
        merge(&mut object, patch);
        if is_apply && store.keeps_managers.load(Ordering::Relaxed) {
            let manager = parameter(asked.parts().1, "fieldManager").unwrap_or_default();
            note_manager(&mut object, patch, manager);
        }
    }
    let going = !object["metadata"]["deletionTimestamp"].is_null();
    let held = object["metadata"]["finalizers"]
        .as_array()
        .is_some_and(|it| !it.is_empty());
    if going && !held {
        store.remove(&path);
        return reply(200, &object);
    }
    reply(200, &store.put(&path, object))
}

/// Records what a field manager has applied last.
fn note_manager(object: &mut Value, patch: &Value, manager: &str) {
    let mut fields = fields_of(patch);
    if let Some(fields) = fields.as_object_mut() {
        fields.retain(|field, _| !matches!(field.as_str(), "f:apiVersion" | "f:kind"));
    }
    if let Some(metadata) = fields["f:metadata"].as_object_mut() {
        let is_identity = |field: &str| {
            matches!(
                field,
                "f:name" | "f:namespace" | "f:uid" | "f:resourceVersion"
            )
        };
        metadata.retain(|field, _| !is_identity(field));
    }
    let entry = json!({"manager": manager, "operation": "Apply", "apiVersion": patch["apiVersion"],
        "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields});
    let managers = &mut object["metadata"]["managedFields"];
    if let Some(managers) = managers.as_array_mut() {
        managers.retain(|it| it["manager"] != manager);
        managers.push(entry);
    } else {
        *managers = json!([entry]);
    }
}

/// Returns the fields of a value as `FieldsV1` names them; a list counts as one field.
fn fields_of(value: &Value) -> Value {
    let fields = value.as_object().into_iter().flatten();
    let fields = fields.map(|(name, value)| (format!("f:{name}"), fields_of(value)));
    Value::Object(fields.collect())
}

fn delete(shared: &Arc<Shared>, place: &Place) -> Response<Body> {
    let path = place.path();
    let Some(mut object) = shared.store.get(&path) else {
        return status(404, "NotFound");
    };
    let finalizers = object["metadata"]["finalizers"].as_array();
    if finalizers.is_some_and(|it| !it.is_empty()) {
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:01Z");
        return reply(200, &shared.store.put(&path, object));
    }
    shared.store.remove(&path);
    reply(
        200,
        &json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}),
    )
}

/// Applies one operation of a JSON patch whose path exists, as far as the hub uses them.
fn edit(object: &mut Value, operation: &Value) {
    let path = operation["path"].as_str().unwrap_or_default();
    let Some((parent, key)) = path.rsplit_once('/') else {
        return;
    };
    let key = key.replace("~1", "/").replace("~0", "~");
    let Some(parent) = object.pointer_mut(parent) else {
        return;
    };
    match (operation["op"].as_str(), parent) {
        (Some("add" | "replace"), Value::Object(fields)) => {
            fields.insert(key, operation["value"].clone());
        }
        (Some("remove"), Value::Object(fields)) => {
            fields.remove(&key);
        }
        (Some("remove"), Value::Array(items)) => {
            if let Ok(index) = key.parse::<usize>()
                && index < items.len()
            {
                items.remove(index);
            }
        }
        _ => {}
    }
}

fn merge(object: &mut Value, patch: &Value) {
    match (object, patch) {
        (Value::Object(fields), Value::Object(patch)) => {
            for (key, value) in patch {
                if value.is_null() {
                    fields.remove(key);
                } else {
                    merge(fields.entry(key).or_insert(Value::Null), value);
                }
            }
        }
        (object, patch) => *object = patch.clone(),
    }
}

fn watch(shared: &Arc<Shared>, place: Place, query: &str) -> Response<Body> {
    let query = query.to_owned();
    let from: u64 = parameter(&query, "resourceVersion")
        .and_then(|it| it.parse().ok())
        .unwrap_or_default();
    let changes = shared.store.changes.subscribe();
    // What came between the list and the watch; a deletion in between is seen with the next list.
    let (items, _) = shared.store.list(&place, &query);
    let missed = items.into_iter().filter(move |object| {
        let version = object["metadata"]["resourceVersion"].as_str();
        version.and_then(|it| it.parse::<u64>().ok()) > Some(from)
    });
    let missed: Vec<Bytes> = missed.map(|object| line("MODIFIED", &object)).collect();
    let live = futures::stream::unfold(changes, move |mut changes| {
        let (place, query) = (place.clone(), query.clone());
        async move {
            loop {
                let change = changes.recv().await.ok()?;
                if change.place.is_in(&place) && is_selected(&change.object, &query) {
                    return Some((line(change.type_, &change.object), changes));
                }
            }
        }
    });
    stream(futures::stream::iter(missed).chain(live))
}

pub(crate) fn line(type_: &str, object: &Value) -> Bytes {
    format!("{{\"type\":\"{type_}\",\"object\":{object}}}\n").into()
}

fn parameter<'q>(query: &'q str, name: &str) -> Option<&'q str> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .into_iter()
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value)
}

/// Returns whether labels are as `key=value` or `key` says; the hub asks for nothing else.
fn is_selected(object: &Value, query: &str) -> bool {
    if let Some(selector) = parameter(query, "fieldSelector") {
        let name = selector.rsplit("%3D").next().unwrap_or_default();
        return object["metadata"]["name"] == name;
    }
    let Some(selector) = parameter(query, "labelSelector") else {
        return true;
    };
    let selector = selector.replace("%2F", "/").replace("%3D", "=");
    let (key, value) = selector.split_once('=').unwrap_or((&selector, ""));
    let label = object["metadata"]["labels"][key].as_str();
    label.is_some_and(|label| value.is_empty() || label == value)
}
