//! Servers in memory for tests of controllers: a hub and the cluster of a spoke, and what the syncer knows of them.

use std::{
    collections::{BTreeMap, HashSet},
    convert::Infallible,
    sync::Arc,
};

use api::{GroupKind, GroupVersionKind, LogicalCluster, Status};
use bytes::Bytes;
use client::{Dynamic, reflector::RawObject};
use graph::{ResolveError, ResolvedKind, SchemaResolver};
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use spokes::{Dialer, Spokes};
use tasks::Tasks;

use crate::{
    Config, Switches,
    engine::Engine,
    instances::work::Work,
    state::{
        actors::Grant,
        brake::Brake,
        keys::InstanceKey,
        own_states::OwnStates,
        served::{DefinitionKey, Reaching, Served},
        target::{Memory, Target, TargetSort},
    },
};

/// The namespace of all objects of tests.
pub(crate) const NAMESPACE: &str = "default";

/// An API server that holds objects by their paths. It knows what the syncer asks of one: preconditions, server-side apply
/// without ownership of fields, and JSON patches that add.
#[derive(Default)]
pub(crate) struct Server {
    // Each guards one value; neither is held across an await nor while the other is.
    state: Mutex<State>,
    happening: Mutex<Option<Happening>>,
}

/// What happens when a path is asked for: once, and before it is answered.
type Happening = (String, Box<dyn FnOnce() + Send>);

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    asked: Vec<Asked>,
    version: u64,
}

/// A request that a server had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) path: String,
    /// In whose name, with the groups; empty for the hub itself.
    pub(crate) user: Vec<String>,
}

// === impl Server ===

impl Server {
    /// Returns a client of the server.
    pub(crate) fn client(self: &Arc<Self>) -> kube::Client {
        let server = Arc::clone(self);
        client::in_process(tower::service_fn(move |request: Request<Body>| {
            let server = Arc::clone(&server);
            async move { Ok::<_, Infallible>(server.serve(request).await) }
        }))
    }

    /// Puts an object at a path.
    pub(crate) fn put(&self, path: &str, object: Value) {
        self.state.lock().objects.insert(path.to_owned(), object);
    }

    /// Returns the object at a path.
    pub(crate) fn at(&self, path: &str) -> Option<Value> {
        self.state.lock().objects.get(path).cloned()
    }

    /// Returns all requests so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.state.lock().asked.clone()
    }

    /// Does something when a path is asked for next.
    pub(crate) fn when(&self, path: &str, happening: impl FnOnce() + Send + 'static) {
        *self.happening.lock() = Some((path.to_owned(), Box::new(happening)));
    }

    async fn serve(&self, request: Request<Body>) -> Response<Full<Bytes>> {
        let (parts, body) = request.into_parts();
        let bytes = body
            .collect()
            .await
            .map(http_body_util::Collected::to_bytes);
        let body = serde_json::from_slice(&bytes.unwrap_or_default()).unwrap_or_default();
        let path = parts.uri.path().to_owned();
        let happening = self.happening.lock().take_if(|(at, _)| *at == path);
        if let Some((_, happens)) = happening {
            happens();
        }
        let mut state = self.state.lock();
        let named = |name: &str| {
            let values = parts.headers.get_all(name).into_iter();
            values.filter_map(|value| value.to_str().ok().map(str::to_owned))
        };
        let user = named("impersonate-user").chain(named("impersonate-group"));
        state.asked.push(Asked {
            method: parts.method.clone(),
            path: path.clone(),
            user: user.collect(),
        });
        let answer = state.answer(&parts.method, &path, &body);
        drop(state);
        let (code, answer) = match answer {
            Ok(answer) => (200, answer),
            Err(status) => (status.code, json!(*status)),
        };
        let mut response = Response::new(Full::from(answer.to_string()));
        *response.status_mut() = http::StatusCode::from_u16(code).expect("a status has a code");
        response
    }
}

// === impl State ===

impl State {
    fn answer(&mut self, method: &Method, path: &str, body: &Value) -> Result<Value, Box<Status>> {
        let (path, is_object) = split(path);
        let live = self.objects.get(&path).cloned();
        match *method {
            Method::GET if !is_object => {
                let within = self.objects.iter().filter(|(at, _)| parent(at) == path);
                let items: Vec<&Value> = within.map(|(_, object)| object).collect();
                let metadata = json!({"resourceVersion": self.version.to_string()});
                Ok(
                    json!({"apiVersion": "v1", "kind": "List", "metadata": metadata, "items": items}),
                )
            }
            Method::GET => live.ok_or_else(|| missing(&path).into()),
            // Everybody may do everything.
            Method::POST if path.ends_with("accessreviews") => {
                let mut review = body.clone();
                review["status"]["allowed"] = json!(true);
                Ok(review)
            }
            Method::POST => {
                let path = format!("{path}/{}", api::meta::name(body));
                if self.objects.contains_key(&path) {
                    return Err(conflict(&path, "it exists").into());
                }
                Ok(self.keep(&path, body.clone()))
            }
            Method::PATCH if body.is_array() => {
                let mut object = live.ok_or_else(|| missing(&path))?;
                for operation in body.as_array().into_iter().flatten() {
                    add(&mut object, operation);
                }
                Ok(self.keep(&path, object))
            }
            Method::PATCH => {
                let wanted = &body["metadata"];
                let is_refused = match &live {
                    Some(live) => {
                        let version = &wanted["resourceVersion"];
                        !version.is_null() && *version != live["metadata"]["resourceVersion"]
                            || !wanted["uid"].is_null() && wanted["uid"] != live["metadata"]["uid"]
                    }
                    None => !wanted["uid"].is_null(),
                };
                if is_refused {
                    return Err(conflict(&path, "it is another one").into());
                }
                let mut object = live.unwrap_or_else(|| json!({"metadata": {}}));
                merge(&mut object, body);
                Ok(self.keep(&path, object))
            }
            Method::DELETE => {
                let live = live.ok_or_else(|| missing(&path))?;
                let wanted = &body["preconditions"]["uid"];
                if !wanted.is_null() && *wanted != live["metadata"]["uid"] {
                    return Err(conflict(&path, "it is another one").into());
                }
                self.objects.remove(&path);
                Ok(json!({"apiVersion": "v1", "kind": "Status", "status": "Success"}))
            }
            _ => Err(Status::bad_request("not served here").into()),
        }
    }

    fn keep(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        if api::meta::uid(&object).is_empty() {
            object["metadata"]["uid"] = json!(format!("made-{}", self.version));
        }
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.objects.insert(path.to_owned(), object.clone());
        object
    }
}

/// Returns a path without a subresource, and whether it is that of an object.
fn split(path: &str) -> (String, bool) {
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let mut before = if segments[0] == "clusters" { 2 } else { 0 };
    before += if segments[before] == "api" { 2 } else { 3 };
    if segments[before] == "namespaces" && segments.len() > before + 2 {
        before += 2;
    }
    let end = segments.len().min(before + 2);
    (
        format!("/{}", segments[..end].join("/")),
        segments.len() > before + 1,
    )
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn missing(path: &str) -> Status {
    Status::not_found(&api::GroupResource::default(), path)
}

fn conflict(path: &str, detail: &str) -> Status {
    Status::conflict(&api::GroupResource::default(), path, detail)
}

fn add(object: &mut Value, operation: &Value) {
    let pointer = operation["path"].as_str().expect("an operation has a path");
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer begins with /");
    let parent = object
        .pointer_mut(parent)
        .expect("what is added to is there");
    parent[key.replace("~1", "/")] = operation["value"].clone();
}

fn merge(object: &mut Value, wanted: &Value) {
    match (object, wanted) {
        (Value::Object(object), Value::Object(wanted)) => {
            for (key, wanted) in wanted {
                merge(object.entry(key.clone()).or_insert(Value::Null), wanted);
            }
        }
        (object, wanted) => *object = wanted.clone(),
    }
}

/// A hub with one spoke, and what the syncer knows of them. Nothing runs by itself.
pub(crate) struct World {
    /// The hub's API.
    pub(crate) hub: Arc<Server>,
    /// The spoke's.
    pub(crate) spoke: Arc<Server>,
    /// The syncer.
    pub(crate) engine: Arc<Engine>,
    /// The spoke, as the syncer has it.
    pub(crate) target: Arc<Target>,
}

// === impl World ===

impl World {
    /// Makes a hub `hub-a` with a spoke `east` that answers.
    pub(crate) fn new() -> Self {
        let (hub, spoke): (Arc<Server>, Arc<Server>) = Default::default();
        let tasks = Tasks::new();
        let config = Config {
            metrics: crate::WorkMetrics::default(),
            hub: hub.client(),
            hub_id: "hub-a".to_owned(),
            brake: Brake::default(),
            switches: Switches::default(),
            spokes: Spokes::new(Dialer::default()),
            publication: None,
            sharing: None,
        };
        let engine = crate::engine_of(config, false, &tasks);
        let dynamic = Dynamic::new(spoke.client());
        let token = tasks.child_token();
        let mut target = Target::new(east(), TargetSort::Mirrored, dynamic, &tasks, token);
        target.hub = Some(engine.hub.clone());
        target.note_reach(None, "2026-01-01T00:00:00Z");
        let target = Arc::new(target);
        engine.fleet.connect(Arc::clone(&target));
        Self {
            hub,
            spoke,
            engine,
            target,
        }
    }

    /// Returns work on the instance `parent`, which has the uid `uid-parent`.
    pub(crate) fn work<'w>(&'w self, key: &'w InstanceKey) -> Work<'w> {
        Work {
            engine: &self.engine,
            chosen: self.engine.switches.of(&self.target.cluster),
            target: &self.target,
            key,
            instance: json!({"apiVersion": "kro.run/v1alpha1", "kind": key.group_kind.kind, "metadata": {
                "name": key.name, "namespace": key.namespace, "uid": "uid-parent"}}),
            memory: Memory {
                uid: "uid-parent".to_owned(),
                ..Memory::default()
            },
            met_foreign: false,
            error: None,
            kept: HashSet::new(),
            own: OwnStates::default(),
        }
    }
}

/// The spoke.
pub(crate) fn east() -> LogicalCluster {
    "east".parse().expect("a name")
}

/// Names an instance of a kind of kro's group.
pub(crate) fn key(kind: &str, name: &str) -> InstanceKey {
    InstanceKey {
        group_kind: GroupKind {
            group: api::kro::GROUP.to_owned(),
            kind: kind.to_owned(),
        },
        namespace: NAMESPACE.to_owned(),
        name: name.to_owned(),
    }
}

/// Returns an object as a watch delivers it.
pub(crate) fn raw(object: &Value) -> Arc<RawObject> {
    Arc::new(RawObject::from_value(object).expect("an object"))
}

/// Returns a definition of root that makes one ConfigMap for each instance of a kind, as it is served.
pub(crate) fn served(kind: &str) -> Served {
    let spec = json!({"schema": {"apiVersion": "v1alpha1", "kind": kind, "spec": {"a": "string"}},
        "resources": [{"id": "map", "template": {"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "${schema.spec.a}"}}}]});
    let spec = serde_json::from_value(spec).expect("a definition");
    let graph = graph::compile(&spec, "a", &BuiltIn).expect("it compiles");
    Served {
        key: DefinitionKey {
            cluster: LogicalCluster::root(),
            name: kind.to_lowercase(),
        },
        owner: graph::Owner {
            name: String::new(),
            uid: String::new(),
        },
        definition: graph.definition().clone(),
        graph,
        revision: 1,
        grant: Grant::of(&LogicalCluster::root(), &json!({}))
            .expect("root's definitions are the hub's"),
        reaching: Reaching {
            selector: None,
            distribute: true,
        },
    }
}

/// The kinds of every cluster.
struct BuiltIn;

impl SchemaResolver for BuiltIn {
    fn resolve(&self, gvk: &GroupVersionKind) -> Result<ResolvedKind, ResolveError> {
        ResolvedKind::built_in(gvk).ok_or_else(|| ResolveError::not_served(gvk, false))
    }
}
