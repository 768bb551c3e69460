//! The reviews, which answer questions about users and their rights with objects that are never stored, and
//! the requests for tokens ([`token_request`]).
//!
//! `authorization.k8s.io` SelfSubjectAccessReview, SubjectAccessReview, LocalSubjectAccessReview, SelfSubjectRulesReview;
//! `authentication.k8s.io` SelfSubjectReview, TokenReview. Each is created, and the answer is the object with a status.
//!
//! Source: `kubernetes/pkg/registry/authorization`, `.../authentication`.

pub(crate) mod kubeconfig_request;
pub(crate) mod token_request;

use api::{
    cluster::ClusterScope,
    field::{FieldError, FieldPath},
    group::{GroupKind, GroupResource, GroupVersionKind},
    status::Status,
};
use http::{StatusCode, request::Parts};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{
    authenticate::Authenticator,
    authorize::{Attributes, Authorized, Authorizer, Verdict, rbac::PolicyRule},
    handle,
    negotiate::{self, MediaType, Offer},
    refusal::Refusal,
    request::{RequestInfo, UserInfo, Verb},
    respond::{self, RequestBody, Response},
};

const AUTHORIZATION: &str = "authorization.k8s.io";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// One of the reviews.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Review {
    /// May I?
    SelfSubjectAccess,
    /// May they?
    SubjectAccess,
    /// May they, in this namespace?
    LocalSubjectAccess,
    /// What may I?
    SelfSubjectRules,
    /// Who am I?
    SelfSubject,
    /// Whose is this token?
    Token,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AccessSpec {
    resource_attributes: Option<ResourceAttributes>,
    non_resource_attributes: Option<NonResourceAttributes>,
    user: String,
    groups: Vec<String>,
    uid: String,
    extra: std::collections::BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ResourceAttributes {
    namespace: String,
    verb: String,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NonResourceAttributes {
    path: String,
    verb: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TokenSpec {
    token: String,
    audiences: Option<Vec<String>>,
}

/// Returns the spec of what was sent, which is an object from then on, also where there was none.
///
/// # Errors
/// 400 for a spec of another type.
fn spec_of(object: &mut Value) -> Result<Value, Refusal> {
    let spec = &mut object["spec"];
    if spec.is_null() {
        *spec = json!({});
    }
    if !spec.is_object() {
        return Err(Status::bad_request("spec cannot be read: it is no object").into());
    }
    Ok(spec.clone())
}

/// The shortest life, in seconds, that a credential may be asked for with.
const SECONDS_MIN: i64 = 600;

/// The longest life of a credential.
struct Longest {
    seconds: i64,
    /// As errors write it.
    text: &'static str,
}

/// Checks the `spec.expirationSeconds` of a request of this kind.
///
/// # Errors
/// 422 for a life that is too short or too long.
fn validate_life(kind: &GroupVersionKind, seconds: i64, longest: &Longest) -> Result<(), Refusal> {
    let detail = if seconds < SECONDS_MIN {
        "may not specify a duration less than 10 minutes".to_owned()
    } else if seconds > longest.seconds {
        format!("may not specify a duration larger than {}", longest.text)
    } else {
        return Ok(());
    };
    let path = FieldPath::new("spec").child("expirationSeconds");
    let error = FieldError::invalid(&path, Value::from(seconds), &detail);
    let kind = GroupKind {
        group: kind.group.clone(),
        kind: kind.kind.clone(),
    };
    Err(Status::invalid(&kind, "", vec![error]).into())
}

// === impl Review ===

impl Review {
    /// The review that a request is for, if it is for one.
    pub fn of(info: &RequestInfo) -> Option<Self> {
        if !info.is_resource || info.version != "v1" {
            return None;
        }
        match (info.group.as_str(), info.resource.as_str()) {
            (AUTHORIZATION, "selfsubjectaccessreviews") => Some(Self::SelfSubjectAccess),
            (AUTHORIZATION, "subjectaccessreviews") => Some(Self::SubjectAccess),
            (AUTHORIZATION, "localsubjectaccessreviews") => Some(Self::LocalSubjectAccess),
            (AUTHORIZATION, "selfsubjectrulesreviews") => Some(Self::SelfSubjectRules),
            (AUTHENTICATION, "selfsubjectreviews") => Some(Self::SelfSubject),
            (AUTHENTICATION, "tokenreviews") => Some(Self::Token),
            _ => None,
        }
    }

    fn kind(self) -> GroupVersionKind {
        let (group, kind) = match self {
            Self::SelfSubjectAccess => (AUTHORIZATION, "SelfSubjectAccessReview"),
            Self::SubjectAccess => (AUTHORIZATION, "SubjectAccessReview"),
            Self::LocalSubjectAccess => (AUTHORIZATION, "LocalSubjectAccessReview"),
            Self::SelfSubjectRules => (AUTHORIZATION, "SelfSubjectRulesReview"),
            Self::SelfSubject => (AUTHENTICATION, "SelfSubjectReview"),
            Self::Token => (AUTHENTICATION, "TokenReview"),
        };
        GroupVersionKind::new(group, "v1", kind)
    }

    /// Answers a review.
    ///
    /// # Errors
    /// 405 for any verb but create, what is wrong with the body, 422 for a question that is none.
    pub(crate) async fn serve(
        self,
        authorizer: &Authorizer,
        authenticator: &Authenticator,
        request: &Authorized<Parts>,
        body: RequestBody,
    ) -> Result<Response, Refusal> {
        let info = request.info();
        self.check_path(info)?;
        let form = negotiate::accept(request.request(), Offer::Message)?;
        let media_type = negotiate::content_type(
            &request.request().headers,
            &[MediaType::Json, MediaType::Yaml, MediaType::Protobuf],
        )?;
        let bytes = handle::receive(request.context(), body).await?;
        let gvk = self.kind();
        let mut object = handle::decode(media_type, &bytes, &gvk)?;
        request.context().note_object(&object);
        let status = self
            .answer(authorizer, authenticator, request, &object)
            .await?;
        let Some(fields) = object.as_object_mut() else {
            return Err(Status::bad_request("the body of the request is not an object").into());
        };
        fields.insert("apiVersion".to_owned(), json!(gvk.api_version()));
        fields.insert("kind".to_owned(), json!(gvk.kind));
        let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("creationTimestamp".to_owned(), Value::Null);
        }
        fields.insert("status".to_owned(), status);
        respond::value(StatusCode::CREATED, form, &object)
    }

    fn check_path(self, info: &RequestInfo) -> Result<(), Refusal> {
        let gr = GroupResource {
            group: info.group.clone(),
            resource: info.resource.clone(),
        };
        let is_local = self == Self::LocalSubjectAccess;
        if info.names_object || info.namespace.is_empty() == is_local {
            return Err(Status::resource_not_found().into());
        }
        if info.verb != Verb::Create {
            return Err(Status::method_not_allowed(&gr, info.verb.as_str()).into());
        }
        Ok(())
    }

    async fn answer(
        self,
        authorizer: &Authorizer,
        authenticator: &Authenticator,
        request: &Authorized<Parts>,
        object: &Value,
    ) -> Result<Value, Refusal> {
        let user = &request.context().user;
        let spec = object.get("spec").cloned().unwrap_or_else(|| json!({}));
        match self {
            Self::SelfSubject => Ok(json!({ "userInfo": user.to_value() })),
            Self::Token => token_status(authenticator, &request.info().cluster, &spec).await,
            Self::SelfSubjectRules => {
                let namespace = spec
                    .get("namespace")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                Ok(rules_status(
                    authorizer,
                    user,
                    &request.info().cluster,
                    namespace,
                ))
            }
            Self::SelfSubjectAccess | Self::SubjectAccess | Self::LocalSubjectAccess => {
                let spec = AccessSpec::deserialize(&spec).map_err(|error| {
                    Status::bad_request(format!("spec cannot be read: {error}"))
                })?;
                self.validate(&spec, request.info())?;
                let cluster = &request.info().cluster;
                if self == Self::SelfSubjectAccess {
                    let asked = spec.question(user, cluster);
                    return Ok(access_status(&authorizer.explain(&asked).await));
                }
                let subject = spec.subject();
                let asked = spec.question(&subject, cluster);
                Ok(access_status(&authorizer.explain_for(&asked).await))
            }
        }
    }

    /// Source: `kubernetes/pkg/apis/authorization/validation/validation.go`.
    fn validate(self, spec: &AccessSpec, info: &RequestInfo) -> Result<(), Refusal> {
        let mut errors = Vec::new();
        let both = "cannot be specified in combination with resourceAttributes";
        let neither =
            "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        match (&spec.resource_attributes, &spec.non_resource_attributes) {
            (Some(_), Some(_)) => {
                errors.push(FieldError::invalid(
                    &path("spec.nonResourceAttributes"),
                    Value::Null,
                    both,
                ));
            }
            (None, None) => {
                errors.push(FieldError::invalid(
                    &path("spec.resourceAttributes"),
                    Value::Null,
                    neither,
                ));
            }
            (Some(resource), None)
                if self == Self::LocalSubjectAccess && resource.namespace != info.namespace =>
            {
                errors.push(FieldError::invalid(
                    &path("spec.resourceAttributes.namespace"),
                    Value::from(resource.namespace.clone()),
                    "must match metadata.namespace",
                ));
            }
            (None, Some(_)) if self == Self::LocalSubjectAccess => {
                errors.push(FieldError::invalid(
                    &path("spec.nonResourceAttributes"),
                    Value::Null,
                    "disallowed on this kind of request",
                ));
            }
            _ => {}
        }
        if self != Self::SelfSubjectAccess && spec.user.is_empty() && spec.groups.is_empty() {
            let detail = "at least one of user or group must be specified";
            errors.push(FieldError::invalid(
                &path("spec.user"),
                Value::from(""),
                detail,
            ));
        }
        if errors.is_empty() {
            return Ok(());
        }
        let kind = GroupKind {
            group: AUTHORIZATION.to_owned(),
            kind: self.kind().kind,
        };
        Err(Status::invalid(&kind, "", errors).into())
    }
}

// === impl AccessSpec ===

impl AccessSpec {
    fn subject(&self) -> UserInfo {
        UserInfo::claimed(
            self.user.clone(),
            self.uid.clone(),
            self.groups.clone(),
            self.extra.clone(),
        )
    }

    fn question<'a>(&'a self, user: &'a UserInfo, cluster: &'a ClusterScope) -> Attributes<'a> {
        let nothing = Attributes {
            user,
            cluster,
            verb: "",
            group: "",
            version: "",
            resource: "",
            subresource: "",
            namespace: "",
            name: "",
            path: "",
            is_resource: false,
        };
        match (&self.resource_attributes, &self.non_resource_attributes) {
            (Some(resource), _) => Attributes {
                verb: &resource.verb,
                group: &resource.group,
                version: &resource.version,
                resource: &resource.resource,
                subresource: &resource.subresource,
                namespace: &resource.namespace,
                name: &resource.name,
                is_resource: true,
                ..nothing
            },
            (None, Some(path)) => Attributes {
                verb: &path.verb,
                path: &path.path,
                ..nothing
            },
            (None, None) => nothing,
        }
    }
}

/// A path that is written out.
fn path(text: &str) -> FieldPath {
    FieldPath::new(text)
}

// === answers ===

fn access_status(verdict: &Verdict) -> Value {
    let mut status = Map::new();
    status.insert("allowed".to_owned(), json!(verdict.allowed));
    if verdict.denied {
        status.insert("denied".to_owned(), json!(true));
    }
    if !verdict.reason.is_empty() {
        status.insert("reason".to_owned(), json!(verdict.reason));
    }
    if !verdict.allowed && !verdict.errors.is_empty() {
        status.insert(
            "evaluationError".to_owned(),
            json!(verdict.errors.join(", ")),
        );
    }
    status.into()
}

fn rules_status(
    authorizer: &Authorizer,
    user: &UserInfo,
    cluster: &ClusterScope,
    namespace: &str,
) -> Value {
    let (mut rules, errors) = authorizer.rules_for(user, cluster, namespace);
    if user.is_master_in(cluster) {
        let all = || vec!["*".to_owned()];
        rules.push(PolicyRule {
            verbs: all(),
            api_groups: all(),
            resources: all(),
            ..PolicyRule::default()
        });
        rules.push(PolicyRule {
            verbs: all(),
            non_resource_urls: all(),
            ..PolicyRule::default()
        });
    }
    let mut seen = Vec::new();
    for rule in rules {
        if !seen.contains(&rule) {
            seen.push(rule);
        }
    }
    let (paths, resources): (Vec<_>, Vec<_>) = seen
        .iter()
        .partition(|rule| !rule.non_resource_urls.is_empty());
    let resources: Vec<Value> = resources.into_iter().map(resource_rule).collect();
    let paths: Vec<Value> = paths
        .into_iter()
        .map(|rule| json!({ "verbs": rule.verbs, "nonResourceURLs": rule.non_resource_urls }))
        .collect();
    let mut status =
        json!({ "resourceRules": resources, "nonResourceRules": paths, "incomplete": false });
    if !errors.is_empty() {
        status["evaluationError"] = json!(errors.join(", "));
    }
    status
}

fn resource_rule(rule: &PolicyRule) -> Value {
    let mut value =
        json!({ "verbs": rule.verbs, "apiGroups": rule.api_groups, "resources": rule.resources });
    if !rule.resource_names.is_empty() {
        value["resourceNames"] = json!(rule.resource_names);
    }
    value
}

async fn token_status(
    authenticator: &Authenticator,
    cluster: &ClusterScope,
    spec: &Value,
) -> Result<Value, Refusal> {
    let spec = TokenSpec::deserialize(spec)
        .map_err(|error| Status::bad_request(format!("spec cannot be read: {error}")))?;
    if spec.token.is_empty() {
        let text = "token is required for TokenReview in authentication";
        return Err(Status::bad_request(text).into());
    }
    let wanted = spec.audiences.unwrap_or_default();
    let reviewed = authenticator.review(&spec.token, cluster, &wanted).await;
    Ok(match reviewed {
        Ok(reviewed) => json!({
            "authenticated": true,
            "user": reviewed.user.to_value(),
            "audiences": reviewed.audiences,
        }),
        Err(error) => json!({"authenticated": false, "user": {}, "error": error.to_string()}),
    })
}
