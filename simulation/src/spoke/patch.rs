//! Patches: server-side apply by the rules of `schema::fieldmanager`, and the two others.

use schema::fieldmanager::{
    self, ApplyError, ApplyInput, FieldSet, Model, TypeContext, UpdateInput,
};
use serde_json::Value;
use std::sync::LazyLock;

use super::{
    Asked, Spoke, Writer,
    calls::Reply,
    kinds::{Kind, Place},
};

static STATUS: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::from_field_names(&[&["status"]]));
static ALL_BUT_STATUS: LazyLock<FieldSet> =
    LazyLock::new(|| FieldSet::from_field_names(&[&["metadata"], &["spec"]]));
static NOTHING: LazyLock<FieldSet> = LazyLock::new(FieldSet::default);

impl Spoke {
    pub(super) fn patch(&self, asked: &Asked, place: &Place, kind: &Kind) -> Reply {
        let Ok(patch) = serde_json::from_slice::<Value>(&asked.body) else {
            return Reply::refusal(400, "BadRequest", "the body is no JSON");
        };
        let media_type = asked.headers.get("content-type");
        let media_type = media_type.and_then(|it| it.to_str().ok());
        if media_type == Some("application/apply-patch+yaml") {
            return self.apply(asked, place, kind, patch);
        }
        let Some(live) = self.get(&place.key) else {
            return Reply::not_found(&place.key);
        };
        let mut object = (*live).clone();
        if media_type == Some("application/json-patch+json") {
            let patched = serde_json::from_value::<json_patch::Patch>(patch)
                .map_err(|error| error.to_string())
                .and_then(|patch| {
                    json_patch::patch(&mut object, &patch).map_err(|error| error.to_string())
                });
            if let Err(error) = patched {
                return Reply::refusal(422, "Invalid", &error);
            }
        } else {
            json_patch::merge(&mut object, &patch);
        }
        self.settle(asked, place, kind, &live, object)
    }

    fn apply(&self, asked: &Asked, place: &Place, kind: &Kind, mut config: Value) -> Reply {
        let live = self.get(&place.key);
        let metadata = config["metadata"].as_object_mut();
        let (version, uid) = metadata.map_or((None, None), |it| {
            (it.remove("resourceVersion"), it.remove("uid"))
        });
        let known = live.as_deref().map(|live| &live["metadata"]);
        if uid.is_some() && uid.as_ref() != known.map(|known| &known["uid"]) {
            return Reply::conflict(&place.key, "Precondition failed: UID in precondition");
        }
        if let (Some(version), Some(known)) = (version, known)
            && version != known["resourceVersion"]
        {
            let why = "the object has been modified; please apply your changes to the latest version and try again";
            return Reply::conflict(&place.key, why);
        }
        if live.is_none() {
            if !place.subresource.is_empty() {
                return Reply::not_found(&place.key);
            }
            if let Some(refusal) = self.missing_namespace(place) {
                return refusal;
            }
        }
        let manager = asked.parameter("fieldManager").unwrap_or_default();
        let outcome = fieldmanager::apply(ApplyInput {
            context: context(kind, place),
            live: live.as_deref(),
            config,
            manager: &manager,
            force: asked.parameter("force").as_deref() == Some("true"),
            now: &super::state::now(),
        });
        match (outcome, live) {
            (Err(ApplyError::Conflicts(conflicts)), _) => {
                let message = format!("Apply failed with {} conflicts", conflicts.len());
                Reply::refusal(409, "Conflict", &message)
            }
            (Err(error), _) => Reply::refusal(422, "Invalid", &error.to_string()),
            (Ok(outcome), Some(live)) if !outcome.changed => Reply::ok((*live).clone()),
            (Ok(outcome), Some(live)) => self.finish(place, &live, outcome.object),
            (Ok(outcome), None) => {
                let stored = self.commit(place.key.clone(), Some(outcome.object), Writer::Hub);
                Reply::Document {
                    code: 201,
                    body: (*stored).clone(),
                }
            }
        }
    }

    /// Attributes what a write other than an apply changes.
    pub(super) fn track(
        kind: &Kind,
        place: &Place,
        live: Option<&Value>,
        object: &mut Value,
        asked: &Asked,
    ) {
        let manager = asked.parameter("fieldManager");
        let input = UpdateInput {
            context: context(kind, place),
            live,
            new: object,
            manager: manager.as_deref().unwrap_or("unknown"),
            now: &super::state::now(),
        };
        if let Err(error) = fieldmanager::update(input) {
            tracing::debug!(error = %error, "cannot attribute fields to a field manager");
        }
    }
}

fn context<'a>(kind: &'a Kind, place: &'a Place) -> TypeContext<'a> {
    TypeContext {
        api_version: &kind.api_version,
        kind: &kind.kind,
        schema: &kind.schema,
        model: if kind.is_custom {
            Model::Dynamic
        } else {
            Model::Native
        },
        subresource: &place.subresource,
        reset: match (kind.has_status, place.subresource.as_str()) {
            (true, "status") => &ALL_BUT_STATUS,
            (true, _) => &STATUS,
            (false, _) => &NOTHING,
        },
        converter: None,
    }
}
