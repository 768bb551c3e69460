//! Scale: the count of replicas of an object, as an object of its own.
//!
//! A `Scale` is made out of the object, changed, and its count written back; owners of the one field move with it.
//! Source: apiextensions-apiserver/pkg/registry/customresource/etcd.go (ScaleREST); api-compat 1.11.

use std::sync::Arc;

use api::query::{PatchKind, PatchOptions, UpdateOptions};
use api::{GroupKind, GroupVersionKind, Status, meta};
use http::StatusCode;
use schema::Schema;
use schema::fieldmanager::{
    self, ApplyInput, FieldSet, Model, PathElement, ReplicasPath, TypeContext, UpdateInput,
};
use serde_json::{Value, json};

use super::output::Shown;
use super::patch::{self, Patch};
use super::received::receive;
use super::scaled::{API_VERSION, KIND, counted, paths};
use super::update::{self, Absent, Change};
use super::write::{Mode, Oversize, Written};
use super::{convert, decode};
use crate::call::{Call, Target};
use crate::negotiate::{self, MediaType, Negotiated, Offer};
use crate::refusal::Refusal;
use crate::respond::{self, RequestBody, Response};
use crate::strategy::paths::{at, segments, set_at};
use crate::strategy::version::ScalePaths;

const DEFINITION: &str = "io.k8s.api.autoscaling.v1.Scale";

pub(super) async fn get(call: &Call<'_>) -> Result<Response, Refusal> {
    let form = negotiate::accept(call.parts, Offer::Message)?;
    let target = call.target()?;
    let entry = call.shared.store.get(&target.key);
    let entry = entry.ok_or_else(|| call.not_found(&target.name))?;
    let object = convert::live(&call.access(), &entry).await?;
    let scale = scale_of(paths(call)?, &object)?;
    respond::value(StatusCode::OK, form, &scale)
}

pub(super) async fn update(call: &Call<'_>, body: RequestBody) -> Result<Response, Refusal> {
    let form = negotiate::accept(call.parts, Offer::Message)?;
    let supported = [MediaType::Json, MediaType::Yaml, MediaType::Protobuf];
    let media = negotiate::content_type(&call.parts.headers, &supported)?;
    let bytes = receive(call.context, body).await?;
    let options = UpdateOptions::from_query(call.query)?;
    let mut sent = decode(media, &bytes, &scale_kind())?;
    call.context.note_object(&sent);
    if let Some(wrong) = not_a_count(&sent) {
        let text = format!("{KIND} in version \"v1\" cannot be handled as a {KIND}: {wrong}");
        return Err(Status::bad_request(text).into());
    }
    let target = call.target()?;
    target.check(&mut sent)?;
    let make = |live: Option<&Value>| {
        let live = live.ok_or_else(|| call.not_found(&target.name))?;
        let mut scale = sent.clone();
        let before = owned_scale(call, live)?;
        track(call, &before, &mut scale, &options.field_manager)?;
        into_object(call, &target, live, &scale)
    };
    run(call, &target, form, &make, Mode::of(options.dry_run)).await
}

pub(super) async fn patch(call: &Call<'_>, body: RequestBody) -> Result<Response, Refusal> {
    let kind = patch::patch_kind(call)?;
    let form = negotiate::accept(call.parts, Offer::Message)?;
    let bytes = receive(call.context, body).await?;
    let options = PatchOptions::from_query(call.query, kind)?;
    let target = call.target()?;
    let patch = patch::parse(kind, &bytes, options)
        .map_err(|refusal| patch::or_absent(call, kind, &target, refusal))?;
    call.context.note_document(&patch.body);
    let make = |live: Option<&Value>| {
        let live = live.ok_or_else(|| call.not_found(&target.name))?;
        let before = owned_scale(call, live)?;
        let mut scale = patched(call, &patch, &before)?;
        target.check(&mut scale)?;
        into_object(call, &target, live, &scale)
    };
    run(call, &target, form, &make, Mode::of(patch.options.dry_run)).await
}

fn patched(call: &Call<'_>, patch: &Patch, before: &Value) -> Result<Value, Refusal> {
    let manager = &patch.options.field_manager;
    if patch.kind == PatchKind::Apply {
        return apply(call, patch, before);
    }
    let mut scale = patch::patched(call, patch, before.clone())?;
    patch::retype(patch.kind, before, &mut scale, &scale_kind())?;
    if let Some(wrong) = not_a_count(&scale) {
        return Err(patch::invalid(&scale, &wrong));
    }
    decode::judge(
        call,
        patch.options.field_validation,
        &patch.duplicates,
        schema::structural::unknown_fields(&scale, &*schema()?),
        |text| Status::bad_request(text).into(),
    )?;
    track(call, before, &mut scale, manager)?;
    Ok(scale)
}

fn apply(call: &Call<'_>, patch: &Patch, before: &Value) -> Result<Value, Refusal> {
    let now = meta::time_now_text(call.context.now);
    let (schema, reset) = (schema()?, FieldSet::default());
    let outcome = fieldmanager::apply(ApplyInput {
        context: context(&schema, &reset),
        live: Some(before),
        config: patch.body.clone(),
        manager: &patch.options.field_manager,
        force: patch.options.force,
        now: &now,
    });
    outcome
        .map(|outcome| outcome.object)
        .map_err(|error| Status::from(error).into())
}

fn track(
    call: &Call<'_>,
    before: &Value,
    scale: &mut Value,
    field_manager: &str,
) -> Result<(), Refusal> {
    let (now, manager) = (
        meta::time_now_text(call.context.now),
        call.manager(field_manager),
    );
    let (schema, reset) = (schema()?, FieldSet::default());
    let context = context(&schema, &reset);
    let input = UpdateInput {
        context,
        live: Some(before),
        new: scale,
        manager: &manager,
        now: &now,
    };
    if let Err(error) = fieldmanager::update(input) {
        tracing::debug!(error = %error, "cannot attribute fields to a field manager");
    }
    Ok(())
}

fn context<'a>(schema: &'a Schema, reset: &'a FieldSet) -> TypeContext<'a> {
    TypeContext {
        api_version: API_VERSION,
        kind: KIND,
        schema,
        model: Model::Native,
        subresource: "scale",
        reset,
        converter: None,
    }
}

fn schema() -> Result<Arc<Schema>, Refusal> {
    let found = schema::builtin::catalog().definition(DEFINITION);
    found.ok_or_else(|| Refusal::internal("the catalogue has no Scale"))
}

async fn run(
    call: &Call<'_>,
    target: &Target,
    form: Negotiated,
    make: &(dyn Fn(Option<&Value>) -> Result<Value, Refusal> + Send + Sync),
    mode: Mode,
) -> Result<Response, Refusal> {
    let change = Change {
        make,
        absent: Absent::NotFound,
        mode,
        oversize: Oversize::DropManagedFields,
    };
    let Written { shown, .. } = update::run(call, target, &change).await?;
    let object = match shown {
        Shown::Entry(entry) => convert::live(&call.access(), &entry).await?,
        Shown::Value(value) => value,
    };
    let scale = scale_of(paths(call)?, &object)?;
    respond::value(StatusCode::OK, form, &scale)
}

/// The scale of an object, with the owners that it has there.
fn owned_scale(call: &Call<'_>, object: &Value) -> Result<Value, Refusal> {
    // What has no count yet is given one.
    let mut scale = counted(paths(call)?, object);
    let owners = meta::metadata(object).and_then(|it| it.get("managedFields"));
    if let Ok(owners) = fieldmanager::scale_from_parent(owners, &replicas_paths(call))
        && !owners.is_empty()
    {
        meta::metadata_mut(&mut scale).insert("managedFields".into(), Value::Array(owners));
    }
    Ok(scale)
}

/// The object with what the scale says.
fn into_object(
    call: &Call<'_>,
    target: &Target,
    live: &Value,
    scale: &Value,
) -> Result<Value, Refusal> {
    let paths = paths(call)?;
    let path = &paths.spec_replicas;
    // A Go integer that is not sent is zero.
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
    if let Some(error) = call.scope.typing().validate_replicas(replicas) {
        let kind = GroupKind::new("autoscaling", KIND);
        return Err(Status::invalid(&kind, &target.name, vec![error]).into());
    }
    let mut object = live.clone();
    set_at(&mut object, path, json!(replicas));
    for (said, set) in [
        (
            meta::resource_version(scale),
            meta::set_resource_version as fn(&mut Value, &str),
        ),
        (meta::uid(scale), meta::set_uid),
    ] {
        if !said.is_empty() {
            set(&mut object, said);
        }
    }
    let owners = |object: &'_ Value| {
        meta::metadata(object)
            .and_then(|it| it.get("managedFields"))
            .cloned()
    };
    let moved = fieldmanager::scale_to_parent(
        owners(live).as_ref(),
        owners(scale).as_ref(),
        &call.scope.version.api_version,
        &replicas_paths(call),
    );
    if let Ok(moved) = moved {
        meta::metadata_mut(&mut object).insert("managedFields".into(), Value::Array(moved));
    }
    Ok(object)
}

/// Why the count of a scale cannot be read, where it is no integer of 32 bits.
fn not_a_count(scale: &Value) -> Option<String> {
    let replicas = scale.get("spec")?.get("replicas")?;
    let is_count = replicas.is_null()
        || replicas
            .as_i64()
            .is_some_and(|it| i32::try_from(it).is_ok());
    let found = match replicas {
        Value::Number(number) => format!("number {number}"),
        other => dialect::json::type_word(other).to_owned(),
    };
    (!is_count).then(|| {
        format!("json: cannot unmarshal {found} into Go struct field ScaleSpec.spec.replicas of type int32")
    })
}

/// Makes the scale of an object.
///
/// # Errors
/// 500 for an object without a count, as in Kubernetes.
fn scale_of(paths: &ScalePaths, object: &Value) -> Result<Value, Refusal> {
    let replicas = at(object, &paths.spec_replicas).and_then(Value::as_i64);
    if replicas.is_some() {
        return Ok(counted(paths, object));
    }
    let quoted = dialect::quote(&paths.spec_replicas);
    let text = format!("the spec replicas field {quoted} does not exist");
    Err(Status::internal(text).into())
}

fn replicas_paths(call: &Call<'_>) -> Vec<ReplicasPath> {
    let versions = call.scope.rules.versions.iter();
    versions
        .map(|version| ReplicasPath {
            api_version: version.api_version.clone(),
            path: version.scale.as_ref().map(|scale| {
                segments(&scale.spec_replicas)
                    .map(PathElement::field)
                    .collect()
            }),
        })
        .collect()
}

fn scale_kind() -> GroupVersionKind {
    GroupVersionKind::new("autoscaling", "v1", KIND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_is_made_of_the_paths() {
        let paths = ScalePaths {
            spec_replicas: ".spec.size".into(),
            status_replicas: ".status.size".into(),
            label_selector: Some(".status.selector".into()),
        };
        let mut object = json!({
            "metadata": {"name": "a", "namespace": "ns", "uid": "u", "labels": {"x": "y"}},
            "spec": {"size": 3}, "status": {"selector": "a=b"},
        });
        let scale = scale_of(&paths, &object).expect("a scale");
        assert_eq!(scale["spec"], json!({"replicas": 3}));
        assert_eq!(scale["status"], json!({"replicas": 0, "selector": "a=b"}));
        assert_eq!(
            scale["metadata"],
            json!({"name": "a", "namespace": "ns", "uid": "u"})
        );
        set_at(&mut object, ".spec.size", json!(5));
        assert_eq!(at(&object, ".spec.size"), Some(&json!(5)));
        object["spec"] = json!({});
        assert!(scale_of(&paths, &object).is_err(), "no count is no scale");
    }
}
