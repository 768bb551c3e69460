//! Gives a logical cluster the objects that it begins with.

use api::cluster::LogicalCluster;
use futures::{StreamExt, stream};
use http::{Method, Request, header};
use serde_json::json;

use super::{Hub, InProcess};
use crate::{
    authorize::bootstrap::{self, Bootstrap},
    request::UserInfo,
    respond::RequestBody,
};

/// The user that these objects are created as.
const USER: &str = "system:wheelhouse:bootstrap";
/// Objects that are created at once: they share commits.
const CONCURRENT_COUNT: usize = 16;

/// Why a logical cluster has not got its objects.
#[derive(Debug, thiserror::Error)]
#[error("creating {name} at {path} was answered with {code}")]
pub struct BootstrapError {
    /// Where it was created.
    path: String,
    /// Name of the object.
    name: String,
    /// The answer.
    code: u16,
}

impl Hub {
    /// Creates the objects that are not there. What is there, is left as it is.
    pub(super) async fn bootstrap(&self, cluster: &LogicalCluster) -> Result<(), BootstrapError> {
        let sender = self.in_process(UserInfo::system(USER));
        // Namespaces first: roles and bindings need none, but whoever sees the last of them may use the first.
        let mut objects = bootstrap::objects();
        if !cluster.is_root() {
            objects.extend(bootstrap::kro_roles());
        }
        let results: Vec<Result<(), BootstrapError>> = stream::iter(objects)
            .map(|object| create(&sender, cluster, object))
            .buffered(CONCURRENT_COUNT)
            .collect()
            .await;
        results.into_iter().collect::<Result<(), _>>()?;
        if cluster.is_root() {
            return Ok(());
        }
        // Only now is its namespace there.
        create(&sender, cluster, api_service()).await
    }
}

/// The Service by which programs in a cluster look for its API server. A cluster without nodes has none that could follow it.
///
/// Source: `kubernetes/pkg/controlplane/controller/kubernetesservice/controller.go`.
fn api_service() -> Bootstrap {
    Bootstrap {
        path: "/api/v1/namespaces/default/services",
        object: json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": "kubernetes",
                "namespace": "default",
                "labels": {"provider": "kubernetes", "component": "apiserver"},
            },
            "spec": {
                "type": "ClusterIP",
                "sessionAffinity": "None",
                "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443}],
            },
        }),
    }
}

async fn create(
    sender: &InProcess,
    cluster: &LogicalCluster,
    bootstrap: Bootstrap,
) -> Result<(), BootstrapError> {
    let name = api::meta::name(&bootstrap.object).to_owned();
    let path = if cluster.is_root() {
        bootstrap.path.to_owned()
    } else {
        format!("{}{}", cluster.path_prefix(), bootstrap.path)
    };
    let mut request = Request::new(RequestBody::full(bootstrap.object.to_string()));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = path
        .parse()
        .expect("a cluster's name is a DNS label, and the rest is constant");
    request.headers_mut().insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("application/json"),
    );
    let code = sender.send(request).await.status().as_u16();
    match code {
        201 | 409 => Ok(()),
        _ => Err(BootstrapError { path, name, code }),
    }
}
