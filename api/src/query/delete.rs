//! Options of delete, which come in a body or in the query.

use dialect::{json::type_word, quote};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::write::validate_dry_run;
use super::{Query, refuse};
use crate::field::{FieldError, FieldPath};
use crate::status::Status;

/// What becomes of the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Propagation {
    /// They stay and lose their owner.
    Orphan,
    /// They go afterwards.
    Background,
    /// They go before.
    Foreground,
}

/// What must hold of an object for it to be deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Preconditions {
    /// The uid that it must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The resource version that it must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

/// Options of delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// How long the object may take to go.
    pub grace_period_seconds: Option<i64>,
    /// What must hold.
    pub preconditions: Preconditions,
    /// The old way to say what becomes of the dependents.
    pub orphan_dependents: Option<bool>,
    /// What becomes of the dependents.
    pub propagation: Option<Propagation>,
    /// Whether nothing is stored.
    pub dry_run: bool,
}

/// The options as they are sent.
struct Body {
    grace_period_seconds: Option<i64>,
    preconditions: Preconditions,
    orphan_dependents: Option<bool>,
    propagation_policy: Option<String>,
    dry_run: Vec<String>,
}

/// A struct of Go's that is read from a body, and where it is in it.
struct Reader<'a> {
    fields: &'a Value,
    /// The struct and the path to it, as Go's decoder names them.
    name: &'static str,
}

// === impl DeleteOptions ===

impl DeleteOptions {
    /// Reads and judges the options of a query, for a request without a body.
    pub fn from_query(query: &Query) -> Result<Self, Status> {
        Self::from_body(Body {
            grace_period_seconds: query.integer("gracePeriodSeconds")?,
            preconditions: Preconditions::default(),
            orphan_dependents: query.optional_flag("orphanDependents"),
            propagation_policy: query.first("propagationPolicy").map(str::to_owned),
            dry_run: query.all("dryRun").map(str::to_owned).collect(),
        })
    }

    /// Reads and judges the options of a body, whatever version it says it has.
    ///
    /// # Errors
    /// 400 where it is no `DeleteOptions`, 422 where it contradicts itself.
    pub fn from_value(body: &Value) -> Result<Self, Status> {
        let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
        let (kind, version) = (text("kind"), text("apiVersion"));
        if !matches!(kind, "" | "DeleteOptions") {
            return Err(Status::bad_request(format!(
                "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
                quote(kind),
                quote(version)
            )));
        }
        let body = Body::read(body).map_err(Status::bad_request)?;
        Self::from_body(body)
    }

    /// Renders the options as a body.
    pub fn to_value(&self) -> Value {
        let mut body = serde_json::json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        let mut set = |name: &str, value: Option<Value>| {
            if let (Some(fields), Some(value)) = (body.as_object_mut(), value) {
                fields.insert(name.to_owned(), value);
            }
        };
        set(
            "gracePeriodSeconds",
            self.grace_period_seconds.map(Value::from),
        );
        set("orphanDependents", self.orphan_dependents.map(Value::from));
        set(
            "propagationPolicy",
            self.propagation.map(|it| Value::from(it.text())),
        );
        set("dryRun", self.dry_run.then(|| Value::from(vec!["All"])));
        if self.preconditions != Preconditions::default() {
            set(
                "preconditions",
                serde_json::to_value(&self.preconditions).ok(),
            );
        }
        body
    }

    fn from_body(body: Body) -> Result<Self, Status> {
        let path = FieldPath::new("propagationPolicy");
        let mut errors = Vec::new();
        let policy = body.propagation_policy.as_deref();
        if let (Some(policy), Some(_)) = (policy, body.orphan_dependents) {
            errors.push(FieldError::invalid(
                &path,
                policy,
                "orphanDependents and deletionPropagation cannot be both set",
            ));
        }
        let propagation = policy.and_then(Propagation::from_text);
        if let (Some(policy), None) = (policy, propagation) {
            errors.push(FieldError::not_supported(
                &path,
                policy,
                ["Foreground", "Background", "Orphan", "nil"],
            ));
        }
        let dry_run: Vec<&str> = body.dry_run.iter().map(String::as_str).collect();
        errors.extend(validate_dry_run(&dry_run));
        refuse("DeleteOptions", errors)?;
        Ok(Self {
            grace_period_seconds: body.grace_period_seconds,
            preconditions: body.preconditions,
            orphan_dependents: body.orphan_dependents,
            propagation,
            dry_run: !body.dry_run.is_empty(),
        })
    }
}

// === impl Body ===

impl Body {
    fn read(body: &Value) -> Result<Self, String> {
        let options = Reader {
            fields: body,
            name: "DeleteOptions",
        };
        let read = |name: &'static str| Reader {
            fields: &body["preconditions"],
            name,
        };
        let preconditions = read("Preconditions.preconditions");
        if !preconditions.fields.is_null() && !preconditions.fields.is_object() {
            return Err(options.refused("preconditions", preconditions.fields, "v1.Preconditions"));
        }
        let policy = "v1.DeletionPropagation";
        Ok(Self {
            grace_period_seconds: options.get("gracePeriodSeconds", "int64", Value::as_i64)?,
            preconditions: Preconditions {
                uid: preconditions.get("uid", "types.UID", text)?,
                resource_version: preconditions.get("resourceVersion", "string", text)?,
            },
            orphan_dependents: options.get("orphanDependents", "bool", Value::as_bool)?,
            propagation_policy: options.get("propagationPolicy", policy, text)?,
            dry_run: options.texts("dryRun")?,
        })
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

// === impl Reader ===

impl Reader<'_> {
    fn get<T>(
        &self,
        name: &str,
        go_type: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<Option<T>, String> {
        match self.fields.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match read(value) {
                Some(read) => Ok(Some(read)),
                None => Err(self.refused(name, value, go_type)),
            },
        }
    }

    fn texts(&self, name: &str) -> Result<Vec<String>, String> {
        let items = self.get(name, "[]string", |value| value.as_array().cloned())?;
        let items = items.unwrap_or_default();
        let read = |item: &Value| match item {
            Value::Null => Ok(String::new()),
            Value::String(text) => Ok(text.clone()),
            other => Err(self.refused(name, other, "string")),
        };
        items.iter().map(read).collect()
    }

    /// The words of Go's JSON decoder.
    fn refused(&self, name: &str, value: &Value, go_type: &str) -> String {
        let found = match value {
            Value::Number(number) if go_type == "int64" => format!("number {number}"),
            other => type_word(other).to_owned(),
        };
        let of = self.name;
        format!("json: cannot unmarshal {found} into Go struct field {of}.{name} of type {go_type}")
    }
}

// === impl Propagation ===

impl Propagation {
    /// Names the policy on the wire.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Orphan => "Orphan",
            Self::Background => "Background",
            Self::Foreground => "Foreground",
        }
    }

    fn from_text(text: &str) -> Option<Self> {
        [Self::Orphan, Self::Background, Self::Foreground]
            .into_iter()
            .find(|it| it.text() == text)
    }
}
