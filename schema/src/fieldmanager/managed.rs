//! `metadata.managedFields`: who owns which fields, at which version, since when.
//!
//! Invariants: a manager has one entry per identity; an entry that is written owns at least one field, unless it was
//! read so; entries are written in the order operation, time, manager, version, subresource.
//!
//! Source: `apimachinery/pkg/util/managedfields/internal/managedfields.go`; api-compat 3.1.

use std::fmt;

use dialect::json;
use serde_json::{Map, Value};

use super::codec::FieldsError;
use super::set::FieldSet;

/// The only known value of `fieldsType`.
const FIELDS_TYPE: &str = "FieldsV1";
/// The name of a manager that does not tell its name.
const UNKNOWN_MANAGER: &str = "unknown";

/// How a manager came to own its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Server-side apply.
    Apply,
    /// Any other write.
    Update,
}

/// What makes two entries one: an applier has one entry whatever its version, an updater one per version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ManagerIdentity {
    /// The name of the manager.
    pub manager: String,
    /// How it writes.
    pub operation: Operation,
    /// The version it updates at; empty for appliers.
    pub api_version: String,
    /// The subresource it writes to; empty for the object itself.
    pub subresource: String,
}

/// An entry of [`ManagedFields`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagedEntry {
    /// Whose entry it is.
    pub identity: ManagerIdentity,
    /// The version in which the paths of the set are spelled.
    pub api_version: String,
    /// What is owned.
    pub set: FieldSet,
    /// When the entry last changed, in RFC 3339 and UTC with whole seconds.
    pub time: Option<String>,
}

/// The owners of the fields of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ManagedFields {
    entries: Vec<ManagedEntry>,
}

/// Why `managedFields` cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManagedFieldsError {
    /// Not a list of objects with fields of the declared types.
    #[error("malformed managed fields entry {0}")]
    Malformed(usize),
    /// An operation other than the two.
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    /// No version.
    #[error("apiVersion must not be empty")]
    ApiVersion,
    /// No type of fields.
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    /// A type of fields other than the one.
    #[error("invalid fieldsType {quoted} in managed fields entry {index}", quoted = dialect::quote(.fields_type))]
    FieldsType {
        /// The position of the entry.
        index: usize,
        /// What it says.
        fields_type: String,
    },
    /// Not RFC 3339.
    #[error("malformed time in managed fields entry {0}")]
    Time(usize),
    /// Not FieldsV1.
    #[error("error decoding versioned set from entry {index}: error decoding set")]
    Fields {
        /// The position of the entry.
        index: usize,
        /// What is wrong with its fields.
        #[source]
        source: FieldsError,
    },
}

// === impl Operation ===

impl Operation {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

// === impl ManagerIdentity ===

impl ManagerIdentity {
    /// The identity of who applies.
    pub fn applier(manager: &str, subresource: &str) -> Self {
        Self::new(manager, Operation::Apply, "", subresource)
    }

    /// The identity of who updates at a version.
    pub fn updater(manager: &str, api_version: &str, subresource: &str) -> Self {
        Self::new(manager, Operation::Update, api_version, subresource)
    }

    /// Whether it applies.
    pub fn is_applier(&self) -> bool {
        self.operation == Operation::Apply
    }

    /// The text that Kubernetes uses as the key of a manager; conflicts and ties are sorted by it.
    pub fn sort_key(&self) -> String {
        let mut key = String::from("{");
        for (name, value) in [
            ("manager", self.manager.as_str()),
            ("operation", self.operation.as_str()),
            ("apiVersion", &self.api_version),
            ("subresource", &self.subresource),
        ] {
            if !value.is_empty() {
                if key.len() > 1 {
                    key.push(',');
                }
                json::push_string(&mut key, name);
                key.push(':');
                json::push_string(&mut key, value);
            }
        }
        key.push('}');
        key
    }

    fn new(manager: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        let manager = if manager.is_empty() {
            UNKNOWN_MANAGER
        } else {
            manager
        };
        Self {
            manager: manager.to_owned(),
            operation,
            api_version: api_version.to_owned(),
            subresource: subresource.to_owned(),
        }
    }
}

impl fmt::Display for ManagerIdentity {
    /// As conflicts name it: `"name" with subresource "status" using apps/v1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&dialect::quote(&self.manager))?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {}", dialect::quote(&self.subresource))?;
        }
        match self.operation {
            Operation::Apply => Ok(()),
            Operation::Update => write!(f, " using {}", self.api_version),
        }
    }
}

// === impl ManagedEntry ===

impl ManagedEntry {
    fn decode(index: usize, entry: &Value) -> Result<Self, ManagedFieldsError> {
        let Value::Object(entry) = entry else {
            return Err(ManagedFieldsError::Malformed(index));
        };
        let text = |name: &str| match entry.get(name) {
            None | Some(Value::Null) => Ok(""),
            Some(Value::String(text)) => Ok(text.as_str()),
            Some(_) => Err(ManagedFieldsError::Malformed(index)),
        };
        let operation = match text("operation")? {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err(ManagedFieldsError::Operation),
        };
        let api_version = text("apiVersion")?;
        if api_version.is_empty() {
            return Err(ManagedFieldsError::ApiVersion);
        }
        match text("fieldsType")? {
            FIELDS_TYPE => {}
            "" => return Err(ManagedFieldsError::NoFieldsType(index)),
            other => {
                return Err(ManagedFieldsError::FieldsType {
                    index,
                    fields_type: other.to_owned(),
                });
            }
        }
        let set = match entry.get("fieldsV1") {
            None | Some(Value::Null) => FieldSet::new(),
            Some(fields) => FieldSet::decode(fields)
                .map_err(|source| ManagedFieldsError::Fields { index, source })?,
        };
        let time = match text("time")? {
            "" => None,
            time => Some(canonical_time(time).ok_or(ManagedFieldsError::Time(index))?),
        };
        let identity_version = match operation {
            Operation::Apply => "",
            Operation::Update => api_version,
        };
        Ok(Self {
            identity: ManagerIdentity {
                manager: text("manager")?.to_owned(),
                operation,
                api_version: identity_version.to_owned(),
                subresource: text("subresource")?.to_owned(),
            },
            api_version: api_version.to_owned(),
            set,
            time,
        })
    }

    fn encode(self) -> Value {
        let mut entry = Map::new();
        entry.insert("apiVersion".to_owned(), Value::String(self.api_version));
        entry.insert("fieldsType".to_owned(), Value::from(FIELDS_TYPE));
        entry.insert("fieldsV1".to_owned(), self.set.encode());
        let ManagerIdentity {
            manager,
            operation,
            subresource,
            ..
        } = self.identity;
        if !manager.is_empty() {
            entry.insert("manager".to_owned(), Value::String(manager));
        }
        entry.insert("operation".to_owned(), Value::from(operation.as_str()));
        if !subresource.is_empty() {
            entry.insert("subresource".to_owned(), Value::String(subresource));
        }
        if let Some(time) = self.time {
            entry.insert("time".to_owned(), Value::String(time));
        }
        Value::Object(entry)
    }
}

// === impl ManagedFields ===

impl ManagedFields {
    /// Reads the entries of an object. No list, or something that is no list, is the same as an empty list.
    ///
    /// # Errors
    ///
    /// One entry that cannot be used makes the whole list unusable.
    pub fn decode(entries: Option<&Value>) -> Result<Self, ManagedFieldsError> {
        let Some(Value::Array(entries)) = entries else {
            return Ok(Self::default());
        };
        let mut managed = Self {
            entries: Vec::with_capacity(entries.len().saturating_add(1)),
        };
        for (index, entry) in entries.iter().enumerate() {
            managed.put(ManagedEntry::decode(index, entry)?);
        }
        Ok(managed)
    }

    /// Writes the entries in their order.
    pub fn encode(mut self) -> Vec<Value> {
        self.entries.sort_by(|left, right| {
            left.identity
                .operation
                .cmp(&right.identity.operation)
                .then_with(|| time_order(left).cmp(time_order(right)))
                .then_with(|| left.identity.manager.cmp(&right.identity.manager))
                .then_with(|| left.api_version.cmp(&right.api_version))
                .then_with(|| left.identity.subresource.cmp(&right.identity.subresource))
        });
        self.entries.into_iter().map(ManagedEntry::encode).collect()
    }

    /// Whether nobody owns anything.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entries, in no order.
    pub fn entries(&self) -> &[ManagedEntry] {
        &self.entries
    }

    /// The entry of a manager.
    pub fn get(&self, identity: &ManagerIdentity) -> Option<&ManagedEntry> {
        self.entries
            .iter()
            .find(|entry| entry.identity == *identity)
    }

    /// Adds an entry, in place of one of the same identity.
    pub fn put(&mut self, entry: ManagedEntry) {
        match self
            .entries
            .iter_mut()
            .find(|present| present.identity == entry.identity)
        {
            Some(present) => *present = entry,
            None => self.entries.push(entry),
        }
    }

    /// Takes the entry of a manager out.
    pub fn take(&mut self, identity: &ManagerIdentity) -> Option<ManagedEntry> {
        let index = self
            .entries
            .iter()
            .position(|entry| entry.identity == *identity)?;
        Some(self.entries.swap_remove(index))
    }

    pub(crate) fn entries_mut(&mut self) -> &mut Vec<ManagedEntry> {
        &mut self.entries
    }
}

/// The time of an entry as it is compared: without one, the beginning of Unix time.
pub(crate) fn time_order(entry: &ManagedEntry) -> &str {
    entry.time.as_deref().unwrap_or("1970-01-01T00:00:00Z")
}

/// Brings a time to UTC and whole seconds. The text of most is so already.
fn canonical_time(time: &str) -> Option<String> {
    let shape = b"0000-00-00T00:00:00Z";
    let canonical = time.len() == shape.len()
        && time.bytes().zip(shape).all(|(byte, wanted)| match wanted {
            b'0' => byte.is_ascii_digit(),
            other => byte == *other,
        });
    let parsed: jiff::Timestamp = time.parse().ok()?;
    if canonical {
        return Some(time.to_owned());
    }
    let seconds = jiff::Timestamp::from_second(parsed.as_second()).ok()?;
    Some(seconds.to_string())
}

#[cfg(test)]
mod tests;
