//! One of the clusters that are served the same scenarios: its objects, by the words that kubectl takes, over one connection.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::Value;

/// The longest wait for one answer.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Versions in which a resource is looked for whose group is not said.
const VERSIONS: &[&str] = &[
    "api/v1",
    "apis/kro.run/v1alpha1",
    "apis/internal.kro.run/v1alpha1",
    "apis/apiextensions.k8s.io/v1",
    "apis/apps/v1",
    "apis/batch/v1",
    "apis/rbac.authorization.k8s.io/v1",
    "apis/networking.k8s.io/v1",
];

/// A cluster that is served scenarios.
pub(super) struct Side {
    /// What a failure calls it.
    pub(super) name: &'static str,
    client: Client,
    /// The path of the logical cluster; empty for kro's own.
    prefix: &'static str,
    /// Resources that were found once: their version, plural name, and whether they are namespaced.
    known: Mutex<HashMap<String, Resource>>,
}

/// A resource that is served.
#[derive(Clone)]
struct Resource {
    version: String,
    plural: String,
    is_namespaced: bool,
}

/// An answer that is no success: its code and its message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) code: u16,
    pub(super) message: String,
}

// === impl Refused ===

impl Refused {
    /// Whether there is no such object, or no such kind.
    pub(super) const fn is_absence(&self) -> bool {
        self.code == 404
    }
}

// === impl Side ===

impl Side {
    /// Connects as the user of a kubeconfig.
    pub(super) async fn connect(
        name: &'static str,
        file: &Path,
        prefix: &'static str,
    ) -> Arc<Self> {
        let kubeconfig = Kubeconfig::read_from(file).expect("a kubeconfig");
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let mut config = config.expect("it can be used");
        config.read_timeout = Some(ANSWER_MAX);
        Arc::new(Self {
            name,
            client: Client::try_from(config).expect("a client"),
            prefix,
            known: Mutex::default(),
        })
    }

    /// Applies an object, as kubectl does on the server's side.
    pub(super) async fn apply(&self, object: &Value) -> Result<Value, Refused> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let path = self.path_of(object, name).await?;
        let query = "fieldManager=kubectl&force=true&fieldValidation=Strict";
        self.send(
            "PATCH",
            &format!("{path}?{query}"),
            "apply-patch+yaml",
            object,
        )
        .await
    }

    /// Creates an object, as kubectl does by itself.
    pub(super) async fn create(&self, object: &Value) -> Result<Value, Refused> {
        let path = self.path_of(object, "").await?;
        let path = format!("{path}?fieldManager=kubectl&fieldValidation=Strict");
        self.send("POST", &path, "json", object).await
    }

    /// Returns the path of an object's kind and namespace, with a name.
    async fn path_of(&self, object: &Value, name: &str) -> Result<String, Refused> {
        let version = object["apiVersion"].as_str().unwrap_or_default();
        let version = if version.contains('/') {
            format!("apis/{version}")
        } else {
            format!("api/{version}")
        };
        let kind = object["kind"].as_str().unwrap_or_default();
        let served = self.served(&version).await?;
        let mut found = served.into_iter().filter(|it| it.1 == kind);
        let (resource, ..) = found.next().ok_or_else(|| absent(kind))?;
        let namespace = object["metadata"]["namespace"].as_str();
        Ok(resource.path(namespace.unwrap_or("default"), name))
    }

    /// Patches an object by a merge patch.
    pub(super) async fn patch(&self, words: &str, patch: &Value) -> Result<Value, Refused> {
        let path = self.path(words).await?;
        self.send("PATCH", &path, "merge-patch+json", patch).await
    }

    /// Deletes an object.
    pub(super) async fn delete(&self, words: &str) -> Result<Value, Refused> {
        let path = self.path(words).await?;
        self.send("DELETE", &path, "json", &Value::Null).await
    }

    /// Reads an object, or a list: `kind/name` or `kinds`, with `-n namespace`, `-l selector` or `--field-selector selector`.
    pub(super) async fn get(&self, words: &str) -> Result<Value, Refused> {
        let path = self.path(words).await?;
        self.send("GET", &path, "json", &Value::Null).await
    }

    async fn path(&self, words: &str) -> Result<String, Refused> {
        let mut words = words.split_whitespace();
        let object = words.next().unwrap_or_default();
        let (mut namespace, mut query) = ("default", String::new());
        while let (Some(option), Some(value)) = (words.next(), words.next()) {
            match option {
                "-n" => namespace = value,
                "-l" => query = format!("?labelSelector={}", escaped(value)),
                _ => query = format!("?fieldSelector={}", escaped(value)),
            }
        }
        let (kind, name) = object.split_once('/').unwrap_or((object, ""));
        let resource = self.resource(kind).await?;
        Ok(format!("{}{query}", resource.path(namespace, name)))
    }

    /// Finds a resource by its plural, singular or short name, with its group where that is said.
    async fn resource(&self, word: &str) -> Result<Resource, Refused> {
        if let Some(known) = self.known.lock().expect("nobody panicked").get(word) {
            return Ok(known.clone());
        }
        let (name, group) = word.split_once('.').unwrap_or((word, ""));
        let versions: Vec<String> = if group.is_empty() {
            VERSIONS.iter().map(|&it| it.to_owned()).collect()
        } else {
            self.versions(group).await?
        };
        for version in versions {
            let served = match self.served(&version).await {
                Ok(served) => served,
                Err(refused) if refused.is_absence() => continue,
                Err(refused) => return Err(refused),
            };
            let mut found = served
                .into_iter()
                .filter(|it| it.2.iter().any(|it| it == name));
            if let Some((resource, ..)) = found.next() {
                let mut known = self.known.lock().expect("nobody panicked");
                known.insert(word.to_owned(), resource.clone());
                return Ok(resource);
            }
        }
        Err(absent(word))
    }

    async fn versions(&self, group: &str) -> Result<Vec<String>, Refused> {
        let path = format!("/apis/{group}");
        let answer = self.send("GET", &path, "json", &Value::Null).await?;
        let versions = answer["versions"].as_array().cloned().unwrap_or_default();
        let versions = versions.iter().filter_map(|it| it["groupVersion"].as_str());
        Ok(versions.map(|it| format!("apis/{it}")).collect())
    }

    /// Returns the resources of a version, with their kinds and all their names.
    async fn served(&self, version: &str) -> Result<Vec<(Resource, String, Vec<String>)>, Refused> {
        let path = format!("/{version}");
        let answer = self.send("GET", &path, "json", &Value::Null).await?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let resources = answer["resources"].as_array().cloned().unwrap_or_default();
        let served = resources.iter().filter_map(|it| {
            let plural = text(&it["name"]);
            if plural.contains('/') {
                return None;
            }
            let short = it["shortNames"].as_array();
            let short = short.into_iter().flatten();
            let mut names: Vec<String> = short.map(text).collect();
            names.extend([plural.clone(), text(&it["singularName"])]);
            names.push(text(&it["kind"]).to_lowercase());
            let resource = Resource {
                version: version.to_owned(),
                plural,
                is_namespaced: it["namespaced"].as_bool().unwrap_or_default(),
            };
            Some((resource, text(&it["kind"]), names))
        });
        Ok(served.collect())
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> Result<Value, Refused> {
        let body = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        let request = http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.prefix))
            .header("content-type", format!("application/{content_type}"))
            .body(body)
            .expect("a request");
        match self.client.request::<Value>(request).await {
            Ok(answer) => Ok(answer),
            Err(kube::Error::Api(status)) => Err(Refused {
                code: status.code,
                message: status.message.clone(),
            }),
            Err(error) => Err(Refused {
                code: 0,
                message: format!("{error:?}"),
            }),
        }
    }
}

fn absent(what: &str) -> Refused {
    Refused {
        code: 404,
        message: format!("no resource {what}"),
    }
}

fn escaped(selector: &str) -> String {
    selector.replace('=', "%3D").replace(',', "%2C")
}

// === impl Resource ===

impl Resource {
    fn path(&self, namespace: &str, name: &str) -> String {
        let mut path = format!("/{}", self.version);
        if self.is_namespaced {
            path = format!("{path}/namespaces/{namespace}");
        }
        path = format!("{path}/{}", self.plural);
        if name.is_empty() {
            return path;
        }
        format!("{path}/{name}")
    }
}
