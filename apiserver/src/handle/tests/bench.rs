//! A hub without its front: handlers, registry and an engine in a directory of its own.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use storage::Store;
use storage::embedded::{self, Engine};
use tasks::Tasks;
use tokio::time::Instant;

use crate::authorize::{Authorized, Authorizer, Policies};
use crate::handle::{Handlers, Parts};
use crate::refusal::Refusal;
use crate::registry::Registry;
use crate::request::{RequestContext, UserInfo};
use crate::respond::{Body, RequestBody, Response};
use crate::route::route;
use crate::terms;
use crate::webhooks::AllowedHosts;

pub(super) struct Bench {
    handlers: Handlers,
    pub(super) registry: Arc<Registry>,
    pub(super) store: Arc<dyn Store>,
    _directory: tempfile::TempDir,
    _tasks: Tasks,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) body: Value,
    pub(super) warnings: Vec<String>,
}

/// A watch that is being read.
pub(super) struct Events {
    body: Pin<Box<Body>>,
    rest: Vec<u8>,
}

/// How long a test waits for something that must come.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) const JSON: &str = "application/json";
pub(super) const MERGE: &str = "application/merge-patch+json";
pub(super) const JSON_PATCH: &str = "application/json-patch+json";
pub(super) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(super) const APPLY: &str = "application/apply-patch+yaml";

// === impl Bench ===

impl Bench {
    /// A root cluster with the namespace `default` and an embedded cluster `east` that has it too.
    pub(super) async fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let config = embedded::Config {
            terms_of: Some(terms::of_stored),
            ..embedded::Config::default()
        };
        let engine = Engine::open(directory.path(), config).expect("a store");
        let store: Arc<dyn Store> = Arc::new(engine);
        let registry = Registry::open(&store).expect("a registry");
        let authorizer = Arc::new(Authorizer::new(Policies::default(), registry.clusters()));
        let handlers = Handlers::new(Parts {
            store: Arc::clone(&store),
            registry: Arc::clone(&registry),
            authorizer,
            spoke_namespaces: None,
            webhook_hosts: AllowedHosts::default(),
            spoke_writes: None,
        });
        let tasks = Tasks::new();
        handlers.start_followers(&tasks);
        crate::definitions::start(handlers.shared(), &tasks);
        crate::sweep::start(handlers.shared(), &tasks);
        let bench = Self {
            handlers,
            registry,
            store,
            _directory: directory,
            _tasks: tasks,
        };
        let namespace = json!({"metadata": {"name": "default"}});
        bench
            .post("/api/v1/namespaces", &namespace)
            .await
            .expect(201);
        let spoke = json!({
            "apiVersion": "wheelhouse.dev/v1alpha1", "kind": "Spoke", "metadata": {"name": "east"},
            "spec": {"provider": "Embedded"},
        });
        bench
            .post("/apis/wheelhouse.dev/v1alpha1/spokes", &spoke)
            .await
            .expect(201);
        bench
            .post("/clusters/east/api/v1/namespaces", &namespace)
            .await
            .expect(201);
        bench
    }

    /// The same, with the definition of `widgets.example.com`.
    pub(super) async fn with_widgets() -> Self {
        let bench = Self::new().await;
        bench.post(CRDS, &widgets()).await.expect(201);
        bench
    }

    pub(super) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, JSON, Bytes::new()).await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, JSON, body.to_string().into())
            .await
    }

    pub(super) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::PUT, path, JSON, body.to_string().into())
            .await
    }

    pub(super) async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, JSON, Bytes::new()).await
    }

    pub(super) async fn patch(&self, path: &str, media: &str, body: &Value) -> Answer {
        self.send(Method::PATCH, path, media, body.to_string().into())
            .await
    }

    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        media: &str,
        body: Bytes,
    ) -> Answer {
        self.send_accepting(method, path, media, JSON, body).await
    }

    pub(super) async fn send_accepting(
        &self,
        method: Method,
        path: &str,
        media: &str,
        accept: &str,
        body: Bytes,
    ) -> Answer {
        let request = request(method, path, media, accept);
        let (answered, warnings) = self.serve(&request, RequestBody::full(body)).await;
        match answered {
            Ok(response) => {
                let code = response.status().as_u16();
                let bytes = response
                    .into_body()
                    .collect()
                    .await
                    .expect("a body")
                    .to_bytes();
                let body = serde_json::from_slice(&bytes)
                    .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&bytes)));
                Answer {
                    code,
                    body,
                    warnings,
                }
            }
            Err(refusal) => {
                let Some(status) = refusal.status() else {
                    return Answer {
                        code: 404,
                        body: json!("404 page not found"),
                        warnings,
                    };
                };
                let body = serde_json::to_value(status).expect("a status");
                Answer {
                    code: status.code,
                    body,
                    warnings,
                }
            }
        }
    }

    pub(super) async fn watch(&self, path: &str) -> Events {
        self.watch_accepting(path, JSON).await
    }

    pub(super) async fn watch_accepting(&self, path: &str, accept: &str) -> Events {
        let request = request(Method::GET, path, JSON, accept);
        let (answered, _warnings) = self.serve(&request, RequestBody::empty()).await;
        let response = answered.expect("a watch");
        assert_eq!(response.status(), StatusCode::OK);
        Events {
            body: Box::pin(response.into_body()),
            rest: Vec::new(),
        }
    }

    async fn serve(
        &self,
        request: &Authorized<http::request::Parts>,
        body: RequestBody,
    ) -> (Result<Response, Refusal>, Vec<String>) {
        let info = request.info();
        let Some(cluster) = info.cluster.one() else {
            let answered = self.handlers.serve_each(request, body, None).await;
            return (answered, request.context().take_warnings());
        };
        let scope = self
            .registry
            .lookup(cluster, &info.group, &info.version, &info.resource);
        let Some(scope) = scope else {
            return (Err(Refusal::no_such_path()), Vec::new());
        };
        let answered = self.handlers.serve(scope, request, body).await;
        (answered, request.context().take_warnings())
    }

    /// Waits until a condition holds of an object.
    pub(super) async fn until(&self, path: &str, holds: impl Fn(&Answer) -> bool) -> Answer {
        let begun = Instant::now();
        loop {
            let answer = self.get(path).await;
            if holds(&answer) {
                return answer;
            }
            assert!(begun.elapsed() < PATIENCE, "{path} stays {answer:?}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

fn request(
    method: Method,
    path: &str,
    media: &str,
    accept: &str,
) -> Authorized<http::request::Parts> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, media)
        .header(header::ACCEPT, accept)
        .header(header::USER_AGENT, "kubectl/v1.36.3 (linux/amd64)")
        .body(())
        .expect("a request");
    let (parts, ()) = request.into_parts();
    let info = route(&parts.method, &parts.uri).expect("a route");
    let context = RequestContext::new(
        Arc::new(UserInfo::system("admin")),
        HeaderValue::from_static("audit"),
        info.cluster.clone(),
        jiff::Timestamp::now(),
        Instant::now() + PATIENCE,
    );
    Authorized::for_test(parts, info, context)
}

// === impl Answer ===

impl Answer {
    #[track_caller]
    pub(super) fn expect(self, code: u16) -> Value {
        assert_eq!(self.code, code, "{:#}", self.body);
        self.body
    }

    pub(super) fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }
}

// === impl Events ===

impl Events {
    /// The next event; `None` at the end of the watch.
    pub(super) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).expect("an event"));
            }
            let frame = tokio::time::timeout(PATIENCE, self.body.frame()).await;
            let frame = frame.expect("an event in time")?;
            self.rest
                .extend_from_slice(&frame.expect("a frame").into_data().expect("data"));
        }
    }

    /// The next event as its type and the name of its object.
    pub(super) async fn brief(&mut self) -> (String, String) {
        let event = self.next().await.expect("an event");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (
            text(&event["type"]),
            text(&event["object"]["metadata"]["name"]),
        )
    }

    /// Whether nothing more comes by itself.
    pub(super) async fn is_quiet(&mut self) -> bool {
        tokio::time::timeout(Duration::from_millis(50), self.next())
            .await
            .is_err()
    }
}

pub(super) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(super) const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

/// The definition of widgets: two versions, status, scale, defaults, a rule, a set.
pub(super) fn widgets() -> Value {
    let schema = json!({"openAPIV3Schema": {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer", "default": 1, "maximum": 10},
                    "color": {"type": "string"},
                    "replicas": {"type": "integer"},
                    "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                },
                "x-kubernetes-validations": [
                    {"rule": "!has(self.color) || self.color != 'mauve'", "message": "no mauve"},
                ],
            },
            "status": {"type": "object", "properties": {
                "phase": {"type": "string"}, "replicas": {"type": "integer"}, "selector": {"type": "string"},
            }},
        },
    }});
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage, "schema": schema,
            "subresources": {"status": {}, "scale": {
                "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            }},
            "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
            "selectableFields": [{"jsonPath": ".spec.color"}],
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [version("v1", true), version("v1beta1", false)],
        },
    })
}

/// A widget.
pub(super) fn widget(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec,
    })
}
