//! From the body of a request to an object of the kind that is served.
//!
//! Text order is run order: syntax, type, unknown fields (where someone wants to know), metadata, pruning, nulls,
//! defaults. What a client is told about doubtful fields depends on `fieldValidation`: nothing, a warning for each, or
//! a refusal that names them all.
//! Source: apiserver/pkg/endpoints/handlers/{create,update}.go, apimachinery/pkg/runtime/serializer.

mod yaml;

use api::growth::TooLarge;
use api::query::FieldValidation;
use api::{GroupVersionKind, Status, json, meta};
use dialect::json::type_word;
use schema::structural::{self, MalformedFields};
use serde_json::Value;

pub(super) use yaml::parse_yaml;

use super::limits::too_much_memory;
use crate::call::Call;
use crate::negotiate::MediaType;
use crate::protobuf;
use crate::refusal::Refusal;
use crate::registry::ResourceScope;
use crate::strategy::rules::TypeCheck;

/// A document and what is doubtful about its syntax.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) value: Value,
    pub(super) duplicates: Duplicates,
}

/// Keys that occur twice, told as the parser of the format does.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Duplicates {
    texts: Vec<String>,
    format: Format,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Format {
    #[default]
    Json,
    Yaml,
}

/// Decodes a body into a value of the expected kind, without a look at its schema.
///
/// # Errors
/// 400 where it is malformed or of another kind.
pub fn decode(
    media: MediaType,
    bytes: &[u8],
    expected: &GroupVersionKind,
) -> Result<Value, Refusal> {
    let mut value = parse(media, bytes, expected)?.value;
    check_type(&mut value, expected, TypeCheck::OnDecoding, bytes)?;
    Ok(value)
}

/// Decodes a body into an object that the resource can store.
pub(super) fn object(
    call: &Call<'_>,
    media: MediaType,
    bytes: &[u8],
    validation: FieldValidation,
) -> Result<Value, Refusal> {
    let expected = call.scope.gvk();
    let Parsed {
        mut value,
        duplicates,
    } = parse(media, bytes, expected)?;
    check_type(
        &mut value,
        expected,
        call.scope.typing().type_check(),
        bytes,
    )?;
    if call.scope.typing().type_check() == TypeCheck::OnValidation
        && meta::kind(&value) != expected.kind
    {
        // The schema is not that of its kind, and validation says so.
        return Ok(value);
    }
    let said = Said {
        kind: meta::kind(&value).to_owned(),
        version: version_of(&value).to_owned(),
    };
    let cannot = |cause: &str| -> Refusal {
        let Said { kind, version } = &said;
        let quoted = dialect::quote(version);
        let text = format!(
            "{kind} in version {quoted} cannot be handled as a {}: {cause}",
            expected.kind
        );
        Status::bad_request(text).into()
    };
    let unknown = normalize(call.scope, &mut value, validation, Nulls::Dropped)
        .map_err(|abnormal| abnormal.refused(cannot))?;
    judge(call, validation, &duplicates, unknown, |text| {
        cannot(&format!("strict decoding error: {text}"))
    })?;
    Ok(value)
}

struct Said {
    kind: String,
    version: String,
}

/// Why an object of a client has no form that the schema allows.
#[derive(Debug)]
pub(crate) enum Abnormal {
    /// It cannot be read; in Kubernetes' words.
    Malformed(String),
    /// It would take too much memory with its defaults.
    TooLarge(TooLarge),
}

/// What becomes of a null that is no value of its field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nulls {
    /// It is as if it were not there, or the default takes its place.
    Dropped,
    /// The default takes its place, or else it is a wrong value, for custom resources: Kubernetes decodes no apply by their schema.
    Judged,
}

/// Brings an object of a client into the form that the schema allows; returns what was unknown, where that is asked for.
pub(crate) fn normalize(
    scope: &ResourceScope,
    value: &mut Value,
    validation: FieldValidation,
    nulls: Nulls,
) -> Result<Vec<String>, Abnormal> {
    let schema = &scope.version.schema;
    let unknown = match validation {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Warn | FieldValidation::Strict => {
            scope.typing().unknown_fields(&scope.version, value)
        }
    };
    let (typing, version) = (scope.typing(), &scope.version);
    let resets_owners = typing.type_check() == TypeCheck::OnDecoding && has_no_owners(value);
    typing.read(version, value).map_err(Abnormal::Malformed)?;
    structural::coerce_metadata(value, schema, MalformedFields::Refused)
        .map_err(|error| Abnormal::Malformed(error.to_string()))?;
    structural::prune(value, schema);
    if nulls == Nulls::Dropped || typing.type_check() == TypeCheck::OnDecoding {
        structural::drop_nulls(value, schema);
    }
    typing.default(version, value).map_err(Abnormal::TooLarge)?;
    if resets_owners {
        // One empty entry asks for the same, and stays.
        meta::metadata_mut(value).insert("managedFields".into(), serde_json::json!([{}]));
    }
    Ok(unknown)
}

/// Whether an object says that its fields have no owners, as a Go type keeps it: a list that is there and empty.
///
/// Source: apimachinery `util/managedfields/internal/managedfieldsupdater.go` (isResetManagedFields).
fn has_no_owners(object: &Value) -> bool {
    let owners = meta::metadata(object).and_then(|metadata| metadata.get("managedFields"));
    owners.and_then(Value::as_array).is_some_and(Vec::is_empty)
}

/// Gives a patched object its type back where the patch took it away, and refuses one of another type: for kinds whose type is checked on
/// decoding. Those of definitions are validated with the rest.
///
/// # Errors
/// Why it cannot be decoded, in Kubernetes' words.
pub(super) fn retype(object: &mut Value, expected: &GroupVersionKind) -> Result<(), String> {
    let Some(fields) = object.as_object_mut() else {
        return Ok(());
    };
    if let Some(cause) = untyped_fields(fields) {
        return Err(cause);
    }
    if fields.get("kind").is_none_or(is_blank) {
        fields.insert("kind".to_owned(), Value::from(expected.kind.as_str()));
    }
    let (said, wanted) = (meta::api_version(object), expected.api_version());
    if said == wanted && meta::kind(object) == expected.kind {
        return Ok(());
    }
    Err(mismatch(object, expected).unwrap_or_else(|| wrong_version(said, &wanted)))
}

fn is_blank(value: &Value) -> bool {
    value.is_null() || value == ""
}

fn wrong_version(said: &str, expected: &str) -> String {
    format!(
        "the API version in the data ({said}) does not match the expected API version ({expected})"
    )
}

// === impl Abnormal ===

impl Abnormal {
    /// The refusal: of what is malformed as the caller words it.
    pub(crate) fn refused(self, malformed: impl FnOnce(&str) -> Refusal) -> Refusal {
        match self {
            Self::Malformed(cause) => malformed(&cause),
            Self::TooLarge(error) => too_much_memory(error),
        }
    }
}

/// Warns the client about doubtful fields, or refuses because of them.
pub(super) fn judge(
    call: &Call<'_>,
    validation: FieldValidation,
    duplicates: &Duplicates,
    unknown: Vec<String>,
    refuse: impl FnOnce(&str) -> Refusal,
) -> Result<(), Refusal> {
    let unknown = unknown
        .into_iter()
        .map(|path| format!("unknown field \"{path}\""));
    match validation {
        FieldValidation::Ignore => Ok(()),
        FieldValidation::Warn => {
            duplicates
                .texts
                .iter()
                .cloned()
                .chain(unknown)
                .for_each(|text| call.context.warn(text));
            Ok(())
        }
        FieldValidation::Strict => {
            let texts: Vec<_> = duplicates.error_text().into_iter().chain(unknown).collect();
            if texts.is_empty() {
                Ok(())
            } else {
                Err(refuse(&texts.join(", ")))
            }
        }
    }
}

/// Parses options in a body. What is wrong is said without what they were to be.
pub(super) fn parse_options(
    media: MediaType,
    bytes: &[u8],
    expected: &GroupVersionKind,
) -> Result<Value, Refusal> {
    let parsed = match media {
        MediaType::Json => json::parse_strict(bytes)
            .map(|(value, _)| value)
            .map_err(|error| not_parsed(&error)),
        MediaType::Yaml => parse_yaml(bytes).map(|parsed| parsed.value),
        _ => return Ok(parse(media, bytes, expected)?.value),
    };
    parsed.map_err(|cause| Status::bad_request(cause).into())
}

/// Parses a body by its media type.
pub(super) fn parse(
    media: MediaType,
    bytes: &[u8],
    expected: &GroupVersionKind,
) -> Result<Parsed, Refusal> {
    match media {
        MediaType::Yaml | MediaType::ApplyYaml => {
            parse_yaml(bytes).map_err(|cause| unrecognized(expected, &cause, bytes))
        }
        MediaType::Protobuf => {
            let envelope = protobuf::envelope(bytes).and_then(|envelope| envelope.decode());
            let value =
                envelope.map_err(|error| unrecognized(expected, &error.to_string(), bytes))?;
            Ok(Parsed {
                value,
                duplicates: Duplicates::default(),
            })
        }
        MediaType::Json
        | MediaType::JsonPatch
        | MediaType::MergePatch
        | MediaType::StrategicMergePatch => {
            let (value, paths) = json::parse_strict(bytes)
                .map_err(|error| unrecognized(expected, &not_parsed(&error), bytes))?;
            Ok(Parsed {
                value,
                duplicates: Duplicates::json(paths),
            })
        }
    }
}

/// 400 for a body of which not even the kind is known.
fn unrecognized(expected: &GroupVersionKind, cause: &str, bytes: &[u8]) -> Refusal {
    const SUMMARY_BYTES: usize = 30;
    let start = bytes.get(..SUMMARY_BYTES.min(bytes.len())).unwrap_or(bytes);
    let start = match bytes.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(start).into_owned(),
        Some(_) => hex(start),
    };
    let summary = if bytes.len() > SUMMARY_BYTES {
        format!("{start} ...")
    } else {
        start
    };
    let kind = &expected.kind;
    let text = format!(
        "the object provided is unrecognized (must be of type {kind}): {cause} ({summary})"
    );
    Status::bad_request(text).into()
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .filter_map(|digit| char::from_digit(u32::from(digit), 16))
        .collect()
}

fn not_parsed(error: &json::ParseJsonError) -> String {
    let error = json_error(error);
    format!("couldn't get version/kind; json parse error: {error}")
}

/// A syntax error in the words of Go, where they differ most.
pub(super) fn json_error(error: &json::ParseJsonError) -> String {
    let text = error.to_string();
    if text.starts_with("EOF while parsing") {
        return "unexpected end of JSON input".to_owned();
    }
    text
}

/// Why the type that an object says cannot be read, in Kubernetes' words.
pub(super) fn untyped(object: &Value) -> Option<String> {
    untyped_fields(object.as_object()?)
}

fn untyped_fields(fields: &serde_json::Map<String, Value>) -> Option<String> {
    for name in ["apiVersion", "kind"] {
        let said = fields.get(name);
        if let Some(said) = said.filter(|said| !said.is_null() && !said.is_string()) {
            let found = type_word(said);
            return Some(format!(
                "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go struct field .{name} of type string"
            ));
        }
    }
    let said = fields.get("apiVersion").and_then(Value::as_str);
    let said = said.filter(|said| said.matches('/').count() > 1)?;
    Some(format!("unexpected GroupVersion string: {said}"))
}

fn check_type(
    value: &mut Value,
    expected: &GroupVersionKind,
    check: TypeCheck,
    bytes: &[u8],
) -> Result<(), Refusal> {
    if value.is_null() {
        if check == TypeCheck::OnValidation {
            let cause = "Object 'Kind' is missing in 'null'";
            return Err(unrecognized(expected, cause, bytes));
        }
        *value = Value::Object(serde_json::Map::new());
    }
    let found = type_word(value);
    let Some(fields) = value.as_object_mut() else {
        let cause = format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type struct \
             {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
             \"json:\\\"kind,omitempty\\\"\" }}"
        );
        return Err(unrecognized(expected, &cause, bytes));
    };
    if let Some(cause) = untyped_fields(fields) {
        return Err(unrecognized(expected, &cause, bytes));
    }
    let api_version = expected.api_version();
    let blank = |fields: &serde_json::Map<String, Value>, name: &str| {
        fields
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .is_empty()
    };
    if check == TypeCheck::OnDecoding {
        for (name, want) in [
            ("kind", expected.kind.as_str()),
            ("apiVersion", &api_version),
        ] {
            if blank(fields, name) {
                fields.insert(name.to_owned(), Value::from(want));
            }
        }
    } else if blank(fields, "kind") {
        let body = String::from_utf8_lossy(bytes);
        let cause = format!("Object 'Kind' is missing in '{}'", body.trim());
        return Err(unrecognized(expected, &cause, bytes));
    }
    let (said, kind) = (meta::api_version(value), meta::kind(value));
    if check == TypeCheck::OnDecoding && (said != api_version || kind != expected.kind) {
        check_built_in_type(value, expected)?;
    }
    if said != api_version {
        return Err(Status::bad_request(wrong_version(said, &api_version)).into());
    }
    Ok(())
}

/// Refuses a built-in object of another kind in the words of Go's type registry.
fn check_built_in_type(value: &Value, expected: &GroupVersionKind) -> Result<(), Refusal> {
    let Some(cause) = mismatch(value, expected) else {
        return Ok(());
    };
    let (kind, version) = (meta::kind(value), dialect::quote(version_of(value)));
    let wanted = &expected.kind;
    let text = format!("{kind} in version {version} cannot be handled as a {wanted}: {cause}");
    Err(Status::bad_request(text).into())
}

/// Why an object that says to be of another built-in kind cannot be decoded.
fn mismatch(value: &Value, expected: &GroupVersionKind) -> Option<String> {
    let (api_version, kind) = (meta::api_version(value), meta::kind(value));
    let version = version_of(value);
    let known = GroupVersionKind::from_object(value)
        .is_some_and(|gvk| schema::builtin::catalog().by_kind(&gvk).is_some());
    if !known {
        let (kind, api_version) = (dialect::quote(kind), dialect::quote(api_version));
        Some(format!(
            "no kind {kind} is registered for version {api_version} in scheme \"pkg/runtime/scheme.go:111\""
        ))
    } else if kind != expected.kind {
        let package = match expected.group.split('.').next() {
            None | Some("") => "core",
            Some(package) => package,
        };
        Some(format!(
            "converting ({version}.{kind}) to ({package}.{}): unknown conversion",
            expected.kind
        ))
    } else {
        None
    }
}

fn version_of(value: &Value) -> &str {
    let api_version = meta::api_version(value);
    api_version.rsplit('/').next().unwrap_or(api_version)
}

// === impl Duplicates ===

impl Duplicates {
    /// Paths of a JSON document.
    pub(super) fn json(paths: Vec<String>) -> Self {
        let texts = paths
            .into_iter()
            .map(|path| format!("duplicate field \"{path}\""));
        Self {
            texts: texts.collect(),
            format: Format::Json,
        }
    }

    fn yaml(texts: Vec<String>) -> Self {
        Self {
            texts,
            format: Format::Yaml,
        }
    }

    #[cfg(test)]
    pub(super) fn texts(&self) -> &[String] {
        &self.texts
    }

    /// The text of an error.
    pub(super) fn error_text(&self) -> Option<String> {
        match self.format {
            _ if self.texts.is_empty() => None,
            Format::Json => Some(self.texts.join(", ")),
            Format::Yaml => Some(format!(
                "yaml: unmarshal errors:\n  {}",
                self.texts.join("\n  ")
            )),
        }
    }

    /// The same with more texts.
    pub(super) fn and(mut self, texts: Vec<String>) -> Self {
        self.texts.extend(texts);
        self
    }

    /// The same with something before each text.
    pub(super) fn prefixed(mut self, prefix: &str) -> Self {
        for text in &mut self.texts {
            text.insert_str(0, prefix);
        }
        self
    }
}
