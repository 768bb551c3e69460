//! `serviceaccounts/<name>/token`: issues a token.
//!
//! Source: `kubernetes/pkg/registry/core/serviceaccount/storage/token.go`, `.../apis/authentication/validation`.

use api::{GroupResource, GroupVersionKind, LogicalCluster, Status, meta};
use http::{StatusCode, request::Parts};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

use crate::{
    authenticate::ServiceAccounts,
    authorize::Authorized,
    handle,
    negotiate::{self, MediaType, Offer},
    refusal::Refusal,
    request::{BoundObject, Claims, Verb, issuer_of},
    respond::{self, RequestBody, Response},
};

/// The audit annotation that names a new token by its id. Source: `apiserver/pkg/authentication/serviceaccount/util.go`.
const ISSUED_ID: &str = "authentication.kubernetes.io/issued-credential-id";
/// The longest life of a token.
const LONGEST: super::Longest = super::Longest {
    seconds: 1 << 32,
    text: "2^32 seconds",
};
/// The life of a token for which none is asked.
const SECONDS_DEFAULT: i64 = 3600;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    audiences: Option<Vec<String>>,
    expiration_seconds: Option<i64>,
    bound_object_ref: Option<BoundObjectRef>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BoundObjectRef {
    kind: String,
    api_version: String,
    name: String,
    uid: String,
}

/// Answers a request for a token of a ServiceAccount of `cluster`.
///
/// # Errors
/// 404 for a ServiceAccount or bound object that is not there, 409 for another uid, 422 for a life that is too short.
pub(crate) async fn serve(
    accounts: &ServiceAccounts,
    cluster: &LogicalCluster,
    request: &Authorized<Parts>,
    body: RequestBody,
) -> Result<Response, Refusal> {
    let info = request.info();
    let resource = core("serviceaccounts");
    if info.verb != Verb::Create {
        return Err(Status::method_not_allowed(&resource, info.verb.as_str()).into());
    }
    let form = negotiate::accept(request.request(), Offer::Message)?;
    let media_type = negotiate::content_type(
        &request.request().headers,
        &[MediaType::Json, MediaType::Yaml, MediaType::Protobuf],
    )?;
    let bytes = handle::receive(request.context(), body).await?;
    let gvk = GroupVersionKind::new("authentication.k8s.io", "v1", "TokenRequest");
    let mut object = handle::decode(media_type, &bytes, &gvk)?;
    request.context().note_object(&object);
    let spec = super::spec_of(&mut object)?;
    let spec = Spec::deserialize(&spec)
        .map_err(|error| Status::bad_request(format!("spec cannot be read: {error}")))?;
    super::validate_life(&gvk, spec.seconds(), &LONGEST)?;
    let uid = accounts
        .uid_of(cluster, &resource.resource, &info.namespace, &info.name)
        .ok_or_else(|| Status::not_found(&resource, &info.name))?;
    let now = request.context().now;
    let claims = Claims {
        issuer: issuer_of(cluster),
        audiences: spec
            .audiences
            .clone()
            .filter(|some| !some.is_empty())
            .unwrap_or_else(|| vec![issuer_of(cluster)]),
        namespace: info.namespace.clone(),
        name: info.name.clone(),
        uid,
        bound: spec.bound(accounts, cluster, &info.namespace)?,
        issued_at: now.as_second(),
        expires_at: now.as_second().saturating_add(spec.seconds()),
        id: uuid::Uuid::new_v4().to_string(),
    };
    let token = accounts.sign(&claims).map_err(Refusal::internal)?;
    let id = format!("JTI={}", claims.id);
    request.context().annotate(ISSUED_ID.to_owned(), id);
    let expiration = Timestamp::from_second(claims.expires_at).map_err(Refusal::internal)?;
    meta::set_type(&mut object, &gvk.api_version(), &gvk.kind);
    meta::set_name(&mut object, &info.name);
    meta::set_namespace(&mut object, &info.namespace);
    meta::set_creation_timestamp(&mut object, &meta::time_now_text(now));
    object["spec"]["audiences"] = json!(claims.audiences);
    object["spec"]["expirationSeconds"] = json!(spec.seconds());
    object["status"] = json!({
        "token": token,
        "expirationTimestamp": meta::time_now_text(expiration),
    });
    respond::value(StatusCode::CREATED, form, &object)
}

// === impl Spec ===

impl Spec {
    fn seconds(&self) -> i64 {
        self.expiration_seconds.unwrap_or(SECONDS_DEFAULT)
    }

    /// The object that the token is bound to, which must be there.
    fn bound(
        &self,
        accounts: &ServiceAccounts,
        cluster: &LogicalCluster,
        namespace: &str,
    ) -> Result<Option<BoundObject>, Refusal> {
        let Some(wanted) = &self.bound_object_ref else {
            return Ok(None);
        };
        let (resource, namespace) = match (wanted.api_version.as_str(), wanted.kind.as_str()) {
            ("v1", "Pod") => ("pods", namespace),
            ("v1", "Secret") => ("secrets", namespace),
            ("v1", "Node") => ("nodes", ""),
            (version, kind) => {
                let text =
                    format!("cannot bind token for serviceaccount to type {version}, Kind={kind}");
                return Err(Status::bad_request(text).into());
            }
        };
        let uid = accounts
            .uid_of(cluster, resource, namespace, &wanted.name)
            .ok_or_else(|| Status::not_found(&core(resource), &wanted.name))?;
        if !wanted.uid.is_empty() && wanted.uid != uid {
            let detail = format!(
                "the UID in the bound object reference ({}) does not match the UID in record. The object might have been deleted and then recreated",
                wanted.uid
            );
            return Err(Status::conflict(&core(resource), &wanted.name, &detail).into());
        }
        Ok(Some(BoundObject {
            kind: wanted.kind.clone(),
            name: wanted.name.clone(),
            uid,
        }))
    }
}

fn core(resource: &str) -> GroupResource {
    GroupResource {
        group: String::new(),
        resource: resource.to_owned(),
    }
}
