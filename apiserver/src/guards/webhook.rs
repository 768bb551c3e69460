//! One webhook: compiled, the review that it gets, and what its answer means.
//!
//! Source: `apiserver/pkg/admission/plugin/webhook/request/admissionreview.go`, `.../webhook/errors/statuserror.go`.

use std::sync::Arc;

use api::admission::Webhook;
use api::wheelhouse::keys::KEY_CLUSTER;
use api::{LogicalCluster, Status, StatusReason, meta};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

use super::attributes::Attributes;
use super::expressions::{Conditions, Names};
use super::matching::{Constraints, Face};

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";
/// What a webhook without `timeoutSeconds` is given.
const TIMEOUT_SECONDS: u32 = 10;

/// A webhook.
#[derive(Debug)]
pub(crate) struct CompiledWebhook {
    pub(crate) spec: Webhook,
    pub(crate) constraints: Result<Constraints, String>,
    pub(crate) conditions: Arc<Conditions>,
}

/// Whether a webhook may change objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mutates {
    Yes,
    No,
}

/// What a webhook says.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Verdict {
    /// Why not, where it does not allow the request.
    pub(crate) denied: Option<Box<Status>>,
    /// Operations of a JSON patch.
    pub(crate) patch: Vec<Value>,
    pub(crate) warnings: Vec<String>,
    pub(crate) annotations: Vec<(String, String)>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Response {
    uid: String,
    allowed: bool,
    status: Option<Value>,
    patch: Option<String>,
    patch_type: Option<String>,
    audit_annotations: Option<std::collections::BTreeMap<String, String>>,
    warnings: Option<Vec<String>>,
}

// === impl CompiledWebhook ===

impl CompiledWebhook {
    /// Compiles the webhooks of a configuration.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub(crate) fn of_configuration(object: &Value) -> Result<Vec<Self>, String> {
        let webhooks = object["webhooks"].as_array().map_or(&[][..], Vec::as_slice);
        let compile = |webhook: &Value| {
            let spec = Webhook::deserialize(webhook).map_err(|error| error.to_string())?;
            let names = Names {
                params: false,
                authorizer: true,
            };
            Ok(Self {
                constraints: Constraints::of_webhook(
                    &spec.rules,
                    spec.match_policy,
                    &spec.namespace_selector,
                    &spec.object_selector,
                ),
                conditions: Arc::new(Conditions::compile(&spec.match_conditions, names)),
                spec,
            })
        };
        webhooks.iter().map(compile).collect()
    }

    pub(crate) fn timeout(&self) -> std::time::Duration {
        let seconds = self.spec.timeout_seconds.unwrap_or(TIMEOUT_SECONDS);
        std::time::Duration::from_secs(u64::from(seconds))
    }

    /// Whether it may be called for a request that changes nothing.
    pub(crate) fn takes_dry_runs(&self) -> bool {
        matches!(self.spec.side_effects.as_str(), "None" | "NoneOnDryRun")
    }

    /// Makes the review of a write. The hub's clusters are told apart by `wheelhouse.dev/cluster` among the extra facts about
    /// the user, since one webhook of root is called for all of them.
    ///
    /// # Errors
    /// It takes no version of reviews that the hub has.
    pub(crate) fn review(
        &self,
        attributes: &Attributes,
        face: &Face,
        uid: &str,
    ) -> Result<Value, String> {
        let versions = &self.spec.admission_review_versions;
        if !versions.iter().any(|version| version == "v1") {
            let text = "webhook does not accept known AdmissionReview versions (v1)";
            return Err(text.to_owned());
        }
        let mut request = attributes.request(&face.resource, &face.kind);
        request["uid"] = json!(uid);
        request["object"] = typed(&attributes.object, face);
        request["oldObject"] = typed(&attributes.old, face);
        // By this a webhook of root tells clusters apart.
        request["userInfo"]["extra"][KEY_CLUSTER] = json!([cluster_name(&attributes.cluster)]);
        Ok(json!({"apiVersion": API_VERSION, "kind": KIND, "request": request}))
    }

    /// Reads the answer to a review.
    ///
    /// # Errors
    /// It is no answer to this review.
    pub(crate) fn verdict(
        &self,
        answer: &Value,
        uid: &str,
        mutates: Mutates,
    ) -> Result<Verdict, String> {
        let response = Response::deserialize(&answer["response"]);
        let response = match (&answer["response"], response) {
            (Value::Null, _) => return Err("webhook response was absent".to_owned()),
            (_, Ok(response)) => response,
            (_, Err(error)) => return Err(error.to_string()),
        };
        if response.uid != uid {
            let found = dialect::quote(&response.uid);
            return Err(format!("expected response.uid={uid:?}, got {found}"));
        }
        let found = (meta::api_version(answer), meta::kind(answer));
        if found != (API_VERSION, KIND) {
            return Err(format!(
                "expected webhook response of {API_VERSION}, Kind={KIND}, got {}, Kind={}",
                found.0, found.1
            ));
        }
        let patch = patch_of(&response, mutates)?;
        let name = &self.spec.name;
        let annotations = response.audit_annotations.unwrap_or_default().into_iter();
        Ok(Verdict {
            denied: (!response.allowed).then(|| Box::new(denial(name, response.status.as_ref()))),
            patch,
            warnings: response.warnings.unwrap_or_default(),
            annotations: annotations
                .map(|(key, value)| (format!("{name}/{key}"), value))
                .collect(),
        })
    }
}

fn cluster_name(cluster: &LogicalCluster) -> &str {
    cluster.as_str()
}

/// An object says its type, also where it was made without.
fn typed(object: &Value, face: &Face) -> Value {
    let mut object = object.clone();
    if object.is_object() {
        meta::set_type(&mut object, &face.kind.api_version(), &face.kind.kind);
    }
    object
}

fn patch_of(response: &Response, mutates: Mutates) -> Result<Vec<Value>, String> {
    let patch = response.patch.as_deref().unwrap_or_default();
    let kind = response.patch_type.as_deref();
    if mutates == Mutates::No {
        return match (patch, kind) {
            ("", None) => Ok(Vec::new()),
            ("", Some(_)) => Err("validating webhook may not return response.patchType".into()),
            _ => Err("validating webhook may not return response.patch".into()),
        };
    }
    match (patch, kind) {
        ("", None) => Ok(Vec::new()),
        ("", Some(_)) => Err("webhook returned response.patchType but not response.patch".into()),
        (_, None) => Err("webhook returned response.patch but not response.patchType".into()),
        (patch, Some("JSONPatch")) => {
            let bytes = STANDARD
                .decode(patch)
                .map_err(|error| format!("response.patch: {error}"))?;
            match api::json::parse(&bytes) {
                Ok(Value::Array(operations)) => Ok(operations),
                Ok(_) => Err("response.patch is no list of operations".into()),
                Err(error) => Err(format!("response.patch: {error}")),
            }
        }
        (_, Some(kind)) => Err(format!(
            "webhook returned invalid response.patchType of {kind:?}"
        )),
    }
}

/// The refusal in a webhook's words. Source: `ToStatusErr`.
fn denial(name: &str, result: Option<&Value>) -> Status {
    let result = result.cloned().unwrap_or_default();
    let code = result["code"]
        .as_u64()
        .and_then(|it| u16::try_from(it).ok());
    let code = code.filter(|code| (400..600).contains(code)).unwrap_or(400);
    let (message, reason) = (
        result["message"].as_str().unwrap_or_default(),
        result["reason"].as_str().unwrap_or_default(),
    );
    let denied_by = format!(
        "admission webhook {} denied the request",
        dialect::quote(name)
    );
    let said = match (message, reason) {
        ("", "") => format!("{denied_by} without explanation"),
        ("", reason) => format!("{denied_by}: {reason}"),
        (message, _) => format!("{denied_by}: {message}"),
    };
    let mut status = Status::failure(code, StatusReason::from_text(reason), said);
    if let Ok(details) = Option::deserialize(&result["details"]) {
        status.details = details;
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn webhook() -> CompiledWebhook {
        let object =
            json!({"webhooks": [{"name": "a.example.com", "admissionReviewVersions": ["v1"]}]});
        let compiled = CompiledWebhook::of_configuration(&object);
        compiled.expect("readable").remove(0)
    }

    #[test]
    fn answers_mean_what_they_mean_to_kubernetes() {
        let patch = STANDARD.encode(r#"[{"op": "remove", "path": "/a"}]"#);
        for (name, mutates, response, want) in [
            (
                "allowed",
                Mutates::No,
                json!({"uid": "1", "allowed": true}),
                Ok(None),
            ),
            (
                "denied",
                Mutates::No,
                json!({"uid": "1", "status": {"code": 403, "message": "no"}}),
                Ok(Some((
                    403,
                    "admission webhook \"a.example.com\" denied the request: no",
                ))),
            ),
            (
                "denied with success",
                Mutates::No,
                json!({"uid": "1", "allowed": false, "status": {"code": 200, "status": "Success"}}),
                Ok(Some((
                    400,
                    "admission webhook \"a.example.com\" denied the request without explanation",
                ))),
            ),
            (
                "another's",
                Mutates::No,
                json!({"uid": "2", "allowed": true}),
                Err(()),
            ),
            ("nothing", Mutates::No, Value::Null, Err(())),
            (
                "a patch of one that may not",
                Mutates::No,
                json!({"uid": "1", "allowed": true, "patch": patch, "patchType": "JSONPatch"}),
                Err(()),
            ),
            (
                "a patch of no type",
                Mutates::Yes,
                json!({"uid": "1", "allowed": true, "patch": patch}),
                Err(()),
            ),
            (
                "a patch",
                Mutates::Yes,
                json!({"uid": "1", "allowed": true, "patch": patch, "patchType": "JSONPatch"}),
                Ok(None),
            ),
        ] {
            let answer = json!({"apiVersion": API_VERSION, "kind": KIND, "response": response});
            let verdict = webhook().verdict(&answer, "1", mutates);
            let found = verdict.as_ref().map(|verdict| {
                let denied = verdict.denied.as_ref();
                denied.map(|status| (status.code, status.message.as_str()))
            });
            assert_eq!(found.map_err(drop), want, "{name}");
        }
        let answer = json!({"apiVersion": "admission.k8s.io/v1beta1", "kind": KIND, "response": {"uid": "1", "allowed": true}});
        assert!(
            webhook().verdict(&answer, "1", Mutates::No).is_err(),
            "another version"
        );
    }
}
