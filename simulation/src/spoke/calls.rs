//! Reads and writes, each answered in one step.

use std::{collections::BTreeMap, sync::Arc};

use http::Method;
use serde_json::{Value, json};

use super::{
    Asked, Key, Spoke, WatchRequest, Writer,
    kinds::{Kind, Place},
    selection::Selection,
};

/// An answer.
#[derive(Debug)]
pub(crate) enum Reply {
    /// A document.
    Document { code: u16, body: Value },
    /// What is to be streamed.
    Watch(WatchRequest),
}

// === impl Reply ===

impl Reply {
    pub(crate) const fn ok(body: Value) -> Self {
        Self::Document { code: 200, body }
    }

    pub(crate) fn refusal(code: u16, reason: &str, message: &str) -> Self {
        let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "reason": reason, "message": message, "code": code});
        Self::Document { code, body }
    }

    pub(crate) fn not_found(key: &Key) -> Self {
        let message = format!("{} {:?} not found", key.resource, key.name);
        Self::refusal(404, "NotFound", &message)
    }

    pub(crate) fn conflict(key: &Key, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {:?}: {why}",
            key.resource, key.name
        );
        Self::refusal(409, "Conflict", &message)
    }
}

impl Spoke {
    /// Answers a request of the hub.
    pub(crate) fn answer(&self, asked: &Asked) -> Reply {
        let path = asked.uri.path();
        match path {
            "/version" => return Reply::ok(json!({"gitVersion": "v1.36.0-simulated"})),
            "/api" => return Reply::ok(self.discovery(true)),
            "/apis" => return Reply::ok(self.discovery(false)),
            "/openapi/v3" => return Reply::ok(json!({"paths": {}})),
            _ => {}
        }
        let Some(place) = Place::of(path) else {
            return Reply::refusal(404, "NotFound", "404 page not found");
        };
        if place.key.group == "authorization.k8s.io" {
            let mut review: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
            review["status"] = json!({"allowed": true});
            return Reply::Document {
                code: 201,
                body: review,
            };
        }
        let Some(kind) = self.kind_at(&place) else {
            return Reply::refusal(404, "NotFound", "404 page not found");
        };
        match (&asked.method, place.key.name.is_empty()) {
            (&Method::GET, true) if asked.is_watch() => self.open_watch(asked, &place),
            (&Method::GET, true) => self.list(asked, &place, &kind),
            (&Method::GET, false) => match self.get(&place.key) {
                Some(object) => Reply::ok((*object).clone()),
                None => Reply::not_found(&place.key),
            },
            (&Method::POST, true) => self.create(asked, place, &kind),
            (&Method::PUT, false) => self.replace(asked, &place, &kind),
            (&Method::PATCH, false) => self.patch(asked, &place, &kind),
            (&Method::DELETE, false) => self.delete(asked, &place),
            _ => Reply::refusal(405, "MethodNotAllowed", "the method is not allowed"),
        }
    }

    /// Lists a collection. One that may be answered from a cache may be as old as the request lets it.
    fn list(&self, asked: &Asked, place: &Place, kind: &Kind) -> Reply {
        let wanted = asked.parameter("resourceVersion");
        let select = Selection::of(asked);
        let items_of = |objects: &BTreeMap<Key, Arc<Value>>| -> Vec<Value> {
            let objects = objects.iter();
            let objects =
                objects.filter(|(key, object)| key.is_in(&place.key) && select.takes(object));
            objects.map(|(_, object)| (**object).clone()).collect()
        };
        let (items, version) = {
            let state = self.state.lock();
            match wanted.as_deref().map(str::parse::<u64>) {
                None => (items_of(state.objects()), state.version()),
                Some(Err(_)) => {
                    return Reply::refusal(400, "BadRequest", "resourceVersion is no number");
                }
                Some(Ok(wanted)) if wanted > state.version() => return too_large(state.version()),
                Some(Ok(wanted)) => {
                    let oldest = wanted.max(state.floor());
                    let age = state.version().saturating_sub(oldest);
                    let version = state.version() - self.staleness(age);
                    (items_of(&state.at(version)), version)
                }
            }
        };
        Reply::ok(json!({
            "kind": format!("{}List", kind.kind), "apiVersion": kind.api_version,
            "metadata": {"resourceVersion": version.to_string()}, "items": items,
        }))
    }

    fn open_watch(&self, asked: &Asked, place: &Place) -> Reply {
        let from = asked.parameter("resourceVersion").unwrap_or_default();
        let Ok(from) = from.parse::<u64>() else {
            return Reply::refusal(400, "BadRequest", "resourceVersion is no number");
        };
        let floor = self.state.lock().floor();
        if from < floor {
            return Reply::refusal(410, "Expired", "too old resource version");
        }
        Reply::Watch(WatchRequest {
            collection: place.key.clone(),
            select: Selection::of(asked),
            from,
            seconds: asked
                .parameter("timeoutSeconds")
                .and_then(|text| text.parse().ok())
                .unwrap_or(300),
            bookmarks: asked.parameter("allowWatchBookmarks").is_some(),
        })
    }

    fn create(&self, asked: &Asked, mut place: Place, kind: &Kind) -> Reply {
        let Ok(mut object) = serde_json::from_slice::<Value>(&asked.body) else {
            return Reply::refusal(400, "BadRequest", "the body is no JSON");
        };
        api::meta::name(&object).clone_into(&mut place.key.name);
        if self.get(&place.key).is_some() {
            let message = format!("{} {:?} already exists", place.key.resource, place.key.name);
            return Reply::refusal(409, "AlreadyExists", &message);
        }
        if let Some(refusal) = self.missing_namespace(&place) {
            return refusal;
        }
        if kind.has_status
            && let Some(fields) = object.as_object_mut()
        {
            fields.remove("status");
        }
        Self::track(kind, &place, None, &mut object, asked);
        let stored = self.commit(place.key, Some(object), Writer::Hub);
        Reply::Document {
            code: 201,
            body: (*stored).clone(),
        }
    }

    fn replace(&self, asked: &Asked, place: &Place, kind: &Kind) -> Reply {
        let Some(live) = self.get(&place.key) else {
            return Reply::not_found(&place.key);
        };
        let Ok(object) = serde_json::from_slice::<Value>(&asked.body) else {
            return Reply::refusal(400, "BadRequest", "the body is no JSON");
        };
        self.settle(asked, place, kind, &live, object)
    }

    fn delete(&self, asked: &Asked, place: &Place) -> Reply {
        let key = &place.key;
        let Some(live) = self.get(key) else {
            return Reply::not_found(key);
        };
        let options: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
        let wanted = &options["preconditions"];
        for field in ["uid", "resourceVersion"] {
            if !wanted[field].is_null() && wanted[field] != live["metadata"][field] {
                let why = format!(
                    "Precondition failed: {field} in precondition: {}",
                    wanted[field]
                );
                return Reply::conflict(key, &why);
            }
        }
        if api::meta::finalizers(&live).is_empty() {
            self.commit(key.clone(), None, Writer::Hub);
            let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                "details": {"name": key.name, "uid": live["metadata"]["uid"]}});
            return Reply::ok(body);
        }
        if api::meta::is_terminating(&live) {
            return Reply::ok((*live).clone());
        }
        let mut object = (*live).clone();
        object["metadata"]["deletionTimestamp"] = json!(super::state::now());
        let stored = self.commit(key.clone(), Some(object), Writer::Hub);
        Reply::ok((*stored).clone())
    }

    /// Stores what a write makes of a live object, or removes it where it was only waited for its finalizers.
    pub(super) fn settle(
        &self,
        asked: &Asked,
        place: &Place,
        kind: &Kind,
        live: &Arc<Value>,
        mut object: Value,
    ) -> Reply {
        let sent = &object["metadata"]["resourceVersion"];
        if !sent.is_null() && *sent != live["metadata"]["resourceVersion"] {
            let why = "the object has been modified; please apply your changes to the latest version and try again";
            return Reply::conflict(&place.key, why);
        }
        let sent = &object["metadata"]["uid"];
        if !sent.is_null() && *sent != live["metadata"]["uid"] {
            return Reply::conflict(&place.key, "Precondition failed: UID in precondition");
        }
        if place.subresource == "status" {
            let mut whole = (**live).clone();
            whole["status"] = object["status"].take();
            whole["metadata"]["managedFields"] = object["metadata"]["managedFields"].take();
            object = whole;
        } else if kind.has_status {
            object["status"] = live["status"].clone();
            if object["status"].is_null()
                && let Some(fields) = object.as_object_mut()
            {
                fields.remove("status");
            }
        }
        for field in ["deletionTimestamp", "uid", "creationTimestamp"] {
            object["metadata"][field] = live["metadata"][field].clone();
        }
        Self::track(kind, place, Some(live), &mut object, asked);
        self.finish(place, live, object)
    }

    pub(super) fn finish(&self, place: &Place, live: &Arc<Value>, mut object: Value) -> Reply {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.retain(|_, value| !value.is_null());
        }
        if api::meta::is_terminating(&object) && api::meta::finalizers(&object).is_empty() {
            let stored = self.commit(place.key.clone(), None, Writer::Hub);
            return Reply::ok((*stored).clone());
        }
        object["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
        object["metadata"]["generation"] = live["metadata"]["generation"].clone();
        if object == **live {
            return Reply::ok(object);
        }
        let stored = self.commit(place.key.clone(), Some(object), Writer::Hub);
        Reply::ok((*stored).clone())
    }

    pub(super) fn missing_namespace(&self, place: &Place) -> Option<Reply> {
        let namespace = &place.key.namespace;
        let key = Key::new("", "namespaces", "", namespace);
        (!namespace.is_empty() && self.get(&key).is_none()).then(|| Reply::not_found(&key))
    }
}

/// Refuses a list at a version that has not been yet, as kube-apiserver does.
fn too_large(version: u64) -> Reply {
    let message = format!("Too large resource version, current: {version}");
    let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": "Timeout", "message": message, "code": 504,
        "details": {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1}});
    Reply::Document { code: 504, body }
}
