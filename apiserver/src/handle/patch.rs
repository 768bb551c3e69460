//! Patch: four ways to say what changes.
//!
//! A JSON, merge or strategic patch makes an object out of the live one, which is then treated as if it had been PUT.
//! An apply is merged by ownership, and creates what is not there.
//! Source: apiserver/pkg/endpoints/handlers/patch.go.

mod merge;
pub(crate) mod operations;

#[cfg(feature = "fuzzing")]
pub(super) use operations::apply as apply_operations;

use api::query::{FieldValidation, PatchKind, PatchOptions};
use api::{FieldError, FieldPath, GroupKind, GroupVersionKind, Status, meta};
use schema::strategic::strategic_merge;
use serde_json::Value;

use super::decode::{self, Duplicates, Nulls, Parsed};
use super::fields::{self, Force};
use super::received::receive;
use super::update::{self, Absent, Change};
use super::write::{Mode, Oversize};
use crate::call::{Call, Target};
use crate::negotiate::{self, MediaType, Offer};
use crate::refusal::Refusal;
use crate::respond::{RequestBody, Response};
use crate::strategy::endpoint::Endpoint;
use crate::strategy::rules::TypeCheck;

/// A parsed patch.
pub(super) struct Patch {
    pub(super) kind: PatchKind,
    pub(super) body: Value,
    pub(super) duplicates: Duplicates,
    pub(super) options: PatchOptions,
}

pub(super) async fn patch(call: &Call<'_>, body: RequestBody) -> Result<Response, Refusal> {
    call.cluster()?;
    let kind = patch_kind(call)?;
    let form = call.form(Offer::Object)?;
    let bytes = receive(call.context, body).await?;
    let options = PatchOptions::from_query(call.query, kind)?;
    let target = call.target()?;
    let patch =
        parse(kind, &bytes, options).map_err(|refusal| or_absent(call, kind, &target, refusal))?;
    call.context.note_document(&patch.body);
    let make = |live: Option<&Value>| make(call, &target, &patch, live);
    let applies = kind == PatchKind::Apply;
    let creates = applies && call.endpoint == Endpoint::Main;
    let change = Change {
        make: &make,
        absent: if creates {
            Absent::Creates
        } else {
            Absent::NotFound
        },
        mode: Mode::of(patch.options.dry_run),
        oversize: if applies {
            Oversize::Refuse
        } else {
            Oversize::DropManagedFields
        },
    };
    let written = update::run(call, &target, &change).await?;
    update::respond(call, form, &written).await
}

/// The refusal of a patch that cannot be read: what is to be patched is looked for before.
pub(super) fn or_absent(
    call: &Call<'_>,
    kind: PatchKind,
    target: &Target,
    refusal: Refusal,
) -> Refusal {
    let is_there = call.shared.store.get(&target.key).is_some();
    if is_there || kind == PatchKind::Apply {
        refusal
    } else {
        call.not_found(&target.name)
    }
}

/// The form of a patch.
pub(super) fn patch_kind(call: &Call<'_>) -> Result<PatchKind, Refusal> {
    let supported = call.scope.typing().patch_media();
    let media = negotiate::content_type(&call.parts.headers, supported)?;
    Ok(match media {
        MediaType::JsonPatch => PatchKind::Json,
        MediaType::MergePatch => PatchKind::Merge,
        MediaType::StrategicMergePatch => PatchKind::Strategic,
        MediaType::ApplyYaml | MediaType::Json | MediaType::Yaml | MediaType::Protobuf => {
            PatchKind::Apply
        }
    })
}

/// Parses the body of a patch.
pub(super) fn parse(
    kind: PatchKind,
    bytes: &[u8],
    options: PatchOptions,
) -> Result<Patch, Refusal> {
    let Parsed {
        value: body,
        mut duplicates,
    } = match kind {
        PatchKind::Apply => decode::parse_yaml(bytes)
            .map_err(|cause| Status::bad_request(format!("error decoding YAML: {cause}")))?,
        PatchKind::Json | PatchKind::Merge | PatchKind::Strategic => {
            let (value, paths) = api::json::parse_strict(bytes)
                .map_err(|error| not_decoded(kind, &decode::json_error(&error)))?;
            Parsed {
                value,
                duplicates: Duplicates::json(paths),
            }
        }
    };
    let body = match (kind, body) {
        // No operations.
        (PatchKind::Json, Value::Null) => Value::Array(Vec::new()),
        (PatchKind::Strategic, Value::Null) => Value::Object(serde_json::Map::new()),
        (_, body) => body,
    };
    let found = dialect::json::type_word(&body);
    let wrong = |wanted: &str| {
        let cause = format!("json: cannot unmarshal {found} into Go value of type {wanted}");
        not_decoded(kind, &cause)
    };
    match kind {
        PatchKind::Json => {
            let operations = body
                .as_array()
                .ok_or_else(|| wrong("[]handlers.jsonPatchOp"))?;
            operations::check_count(operations)?;
            duplicates = duplicates
                .and(operations::unknown_members(operations))
                .prefixed("json patch ");
        }
        PatchKind::Merge if body.is_null() => {
            return Err(Status::bad_request("Invalid JSON Patch").into());
        }
        PatchKind::Merge | PatchKind::Strategic if !body.is_object() => {
            return Err(wrong("map[string]interface {}"));
        }
        // Which is an object without anything.
        PatchKind::Apply if body.is_null() => {
            return Err(Status::bad_request("invalid object type: /, Kind=").into());
        }
        PatchKind::Apply if !body.is_object() => {
            let text = format!(
                "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into \
                 Go value of type map[string]interface {{}}"
            );
            return Err(Status::bad_request(text).into());
        }
        PatchKind::Merge | PatchKind::Strategic | PatchKind::Apply => {}
    }
    Ok(Patch {
        kind,
        body,
        duplicates,
        options,
    })
}

fn not_decoded(kind: PatchKind, cause: &str) -> Refusal {
    let before = match kind {
        PatchKind::Strategic => "",
        _ => "error decoding patch: ",
    };
    Status::bad_request(format!("{before}{cause}")).into()
}

/// Makes the new object.
fn make(
    call: &Call<'_>,
    target: &Target,
    patch: &Patch,
    live: Option<&Value>,
) -> Result<Value, Refusal> {
    let options = &patch.options;
    if patch.kind == PatchKind::Apply {
        return apply(call, patch, live);
    }
    let Some(live) = live else {
        return Err(call.not_found(&target.name));
    };
    let mut object = patched(call, patch, live.clone())?;
    if !object.is_object() {
        return Err(operations::not_applicable());
    }
    if call.scope.typing().type_check() == TypeCheck::OnDecoding {
        retype(patch.kind, live, &mut object, call.scope.gvk())?;
    } else if let Some(cause) = decode::untyped(&object) {
        return Err(invalid(&object, &cause));
    }
    let sent = object.clone();
    let unknown = decode::normalize(
        call.scope,
        &mut object,
        options.field_validation,
        Nulls::Dropped,
    )
    .map_err(|abnormal| abnormal.refused(|cause| invalid(&sent, cause)))?;
    decode::judge(
        call,
        options.field_validation,
        &patch.duplicates,
        unknown,
        |text| invalid(&sent, &format!("strict decoding error: {text}")),
    )?;
    fields::track_update(call, live, &mut object, &options.field_manager);
    fields::drop_repeated_owners(call, &mut object);
    Ok(object)
}

/// The refusal of a patch that makes an object which cannot be decoded.
pub(super) fn invalid(object: &Value, cause: &str) -> Refusal {
    let error = FieldError::invalid(&FieldPath::new("patch"), object.to_string(), cause);
    Status::invalid(&GroupKind::new("", ""), "", vec![error]).into()
}

/// Gives a patched object its type back where the patch took it away.
///
/// A strategic patch does not reach the type: in Kubernetes the Go value that it patches has none.
///
/// # Errors
/// An object of another type, or of none.
pub(super) fn retype(
    kind: PatchKind,
    live: &Value,
    object: &mut Value,
    expected: &GroupVersionKind,
) -> Result<(), Refusal> {
    if kind == PatchKind::Strategic {
        for field in ["apiVersion", "kind"] {
            if object[field].is_string() || object[field].is_null() {
                object[field] = live[field].clone();
            }
        }
    }
    if object.get("apiVersion").is_none_or(Value::is_null) {
        // Kubernetes decodes such an object into its internal version, in which it finds no name.
        let text = format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            meta::name(live)
        );
        return Err(Status::bad_request(text).into());
    }
    decode::retype(object, expected).map_err(|cause| invalid(object, &cause))
}

/// Applies a patch to an object that nothing has been done to yet.
pub(super) fn patched(call: &Call<'_>, patch: &Patch, mut object: Value) -> Result<Value, Refusal> {
    match patch.kind {
        PatchKind::Json => {
            operations::apply(
                &mut object,
                patch.body.as_array().map_or(&[], Vec::as_slice),
            )?;
            Ok(object)
        }
        PatchKind::Merge => {
            if let (Some(object), Some(patch)) = (object.as_object_mut(), patch.body.as_object()) {
                merge::merge(object, patch);
            }
            Ok(object)
        }
        PatchKind::Strategic => {
            let kind = &call.scope.kind.gvk.kind;
            let merged =
                strategic_merge(object, patch.body.clone(), &call.scope.version.schema, kind);
            merged.map_err(|error| Status::from(error).into())
        }
        PatchKind::Apply => Err(Refusal::internal("an apply is not a patch of a document")),
    }
}

fn apply(call: &Call<'_>, patch: &Patch, live: Option<&Value>) -> Result<Value, Refusal> {
    let options = &patch.options;
    let config = patch.body.clone();
    let said = meta::uid(&config).to_owned();
    let force = if options.force { Force::Yes } else { Force::No };
    let typing = call.scope.typing();
    let unknown = match (options.field_validation, typing.type_check()) {
        // What a Go type does not know is no apply of it.
        (FieldValidation::Ignore, _) | (_, TypeCheck::OnDecoding) => Vec::new(),
        _ => typing.unknown_fields(&call.scope.version, &config),
    };
    let mut object = fields::apply(call, live, config, &options.field_manager, force)?;
    decode::judge(
        call,
        options.field_validation,
        &patch.duplicates,
        unknown,
        |text| Status::bad_request(format!("error strict decoding YAML: {text}")).into(),
    )?;
    if live.is_none() && said.is_empty() {
        meta::remove_field(&mut object, "uid");
    }
    decode::normalize(
        call.scope,
        &mut object,
        FieldValidation::Ignore,
        Nulls::Judged,
    )
    .map_err(|abnormal| abnormal.refused(|cause| Status::bad_request(cause).into()))?;
    fields::drop_repeated_owners(call, &mut object);
    Ok(object)
}
