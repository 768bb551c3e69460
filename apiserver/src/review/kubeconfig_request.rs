//! `spokes/<name>/kubeconfig`: a kubeconfig for one logical cluster, for the one who asks, that is good for a while.
//!
//! Its token is a pass ([`crate::authenticate`]): the caller under their own name, in that cluster alone.

use api::{GroupResource, GroupVersionKind, LogicalCluster, Status, meta, wheelhouse};
use base64::{Engine, engine::general_purpose::STANDARD};
use dialect::yaml;
use http::{StatusCode, request::Parts};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    authenticate::{Authenticator, Passes},
    authorize::{Authorized, Authorizer},
    handle,
    negotiate::{self, MediaType, Offer},
    refusal::Refusal,
    request::{Pass, RequestInfo, Verb},
    respond::{self, RequestBody, Response},
    side,
    tls::Pki,
};

/// The kind of what is sent and answered.
const KIND: &str = wheelhouse::KUBECONFIG_REQUEST_KIND;
/// Longer tokens would not be looked at.
const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// The longest life of a kubeconfig: a working day.
const LONGEST: super::Longest = super::Longest {
    seconds: 12 * 3600,
    text: "12 hours",
};
/// The life of one for which none is asked.
const SECONDS_DEFAULT: i64 = 3600;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    expiration_seconds: Option<i64>,
}

/// What the request is answered with.
pub(crate) struct Issue<'a> {
    pub(crate) authenticator: &'a Authenticator,
    pub(crate) authorizer: &'a Authorizer,
    pub(crate) passes: &'a Passes,
    /// By what clients know the hub.
    pub(crate) pki: &'a Pki,
}

/// Whether this is `spokes/<name>/kubeconfig`.
pub(crate) fn is_asked_for(info: &RequestInfo) -> bool {
    let is_root = info.cluster.one().is_some_and(LogicalCluster::is_root);
    let (group, resource) = (info.group.as_str(), info.resource.as_str());
    is_root
        && (group, resource) == (wheelhouse::GROUP, wheelhouse::SPOKE_RESOURCE)
        && info.version == wheelhouse::VERSION
        && info.subresource == wheelhouse::KUBECONFIG_SUBRESOURCE
        && info.names_object
        && info.rest.is_empty()
}

impl Issue<'_> {
    /// Answers.
    ///
    /// # Errors
    /// 403 for one who may not access the cluster, or by a credential that no pass can be made with; 404 for a Spoke that is not there; 422 for a life that
    /// is too short or too long.
    pub(crate) async fn serve(
        &self,
        request: &Authorized<Parts>,
        body: RequestBody,
    ) -> Result<Response, Refusal> {
        let (info, context) = (request.info(), request.context());
        let resource = GroupResource::new(wheelhouse::GROUP, wheelhouse::SPOKE_RESOURCE);
        if info.verb != Verb::Create {
            return Err(Status::method_not_allowed(&resource, info.verb.as_str()).into());
        }
        self.authorizer
            .may_access(&context.user, &info.name)
            .await?;
        let form = negotiate::accept(request.request(), Offer::Message)?;
        let (object, spec) = read(request, body).await?;
        let not_found = || Status::not_found(&resource, &info.name);
        let cluster: LogicalCluster = info.name.parse().map_err(|_name| not_found())?;
        let spoke_uid = self.passes.spoke_uid(cluster.as_str());
        let spoke_uid = spoke_uid.ok_or_else(not_found)?;
        let known = if context.impersonator.is_some() {
            Err("of an impersonated user".to_owned())
        } else {
            self.authenticator
                .origin_of(&context.credential, context.now)
                .await
        };
        let (origin, ends) = known.map_err(|reason| {
            let detail = format!("no kubeconfig can be made {reason}");
            Status::forbidden(&resource, &info.name, &detail)
        })?;
        let now = context.now.as_second();
        let wanted = now.saturating_add(spec.seconds());
        let pass = Pass {
            cluster,
            spoke_uid,
            user: (*context.user).clone(),
            origin,
            issued_at: now,
            expires_at: ends.map_or(wanted, |ends| ends.min(wanted)),
            id: uuid::Uuid::new_v4().to_string(),
        };
        self.answer(request, &pass, object, form)
    }

    fn answer(
        &self,
        request: &Authorized<Parts>,
        pass: &Pass,
        mut object: Value,
        form: negotiate::Negotiated,
    ) -> Result<Response, Refusal> {
        let token = self.passes.sign(pass).map_err(Refusal::internal)?;
        if token.len() > TOKEN_BYTES_MAX {
            let detail = "no kubeconfig can be made for a user of so many groups";
            let resource = GroupResource::new(wheelhouse::GROUP, wheelhouse::SPOKE_RESOURCE);
            return Err(Status::forbidden(&resource, pass.cluster.as_str(), detail).into());
        }
        let server = side::base_url(request.request(), &pass.cluster.path_prefix());
        let (name, user) = (pass.cluster.as_str(), &request.context().user.username);
        let config = with_token(&server, self.pki, name, user, &token);
        let config = yaml::to_string(&config).map_err(Refusal::internal)?;
        let expiration = Timestamp::from_second(pass.expires_at).map_err(Refusal::internal)?;
        let gvk = GroupVersionKind::new(wheelhouse::GROUP, wheelhouse::VERSION, KIND);
        meta::set_type(&mut object, &gvk.api_version(), &gvk.kind);
        meta::set_name(&mut object, name);
        let created = meta::time_now_text(request.context().now);
        meta::set_creation_timestamp(&mut object, &created);
        object["spec"]["expirationSeconds"] = json!(pass.expires_at - pass.issued_at);
        object["status"] = json!({
            "kubeconfig": config,
            "expirationTimestamp": meta::time_now_text(expiration),
        });
        respond::value(StatusCode::CREATED, form, &object)
    }
}

async fn read(request: &Authorized<Parts>, body: RequestBody) -> Result<(Value, Spec), Refusal> {
    let bytes = handle::receive(request.context(), body).await?;
    if bytes.is_empty() {
        return Ok((json!({}), Spec::default()));
    }
    let supported = [MediaType::Json, MediaType::Yaml];
    let media_type = negotiate::content_type(&request.request().headers, &supported)?;
    let gvk = GroupVersionKind::new(wheelhouse::GROUP, wheelhouse::VERSION, KIND);
    let mut object = handle::decode(media_type, &bytes, &gvk)?;
    let spec = super::spec_of(&mut object)?;
    let spec = Spec::deserialize(&spec)
        .map_err(|error| Status::bad_request(format!("spec cannot be read: {error}")))?;
    super::validate_life(&gvk, spec.seconds(), &LONGEST)?;
    Ok((object, spec))
}

/// Makes a kubeconfig of one logical cluster, with a token of a user.
fn with_token(server: &str, pki: &Pki, cluster: &str, user: &str, token: &str) -> Value {
    let authority = STANDARD.encode(pki.authority.certificate_pem());
    let mut reached = json!({"server": server, "certificate-authority-data": authority});
    if let Some(name) = pki.server_name() {
        reached["tls-server-name"] = json!(name);
    }
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": cluster,
        "clusters": [{"name": cluster, "cluster": reached}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": user}}],
        "users": [{"name": user, "user": {"token": token}}],
    })
}

// === impl Spec ===

impl Spec {
    fn seconds(&self) -> i64 {
        self.expiration_seconds.unwrap_or(SECONDS_DEFAULT)
    }
}
