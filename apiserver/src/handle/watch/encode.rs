//! The bytes of watch events in the form that a client wants.
//!
//! In the common form an event is the stored bytes between a few constant ones. Other forms are made once per event and
//! shared by all watchers of the same version and form, through the event itself.

use std::sync::Arc;

use api::meta::ANNOTATION_INITIAL_EVENTS_END;
use api::table::{ColumnDefinition, IncludeObject, Table};
use api::{ClusterScope, Status};
use bytes::Bytes;
use serde_json::{Value, json};
use storage::{Entry, Event, Revision};

use crate::call::Call;
use crate::handle::convert;
use crate::handle::list::with_cluster;
use crate::handle::output::{api_version_of, corrupt, include_object};
use crate::negotiate::{Encoding, Negotiated, Shape, TableVersion};
use crate::objects::{head, with_revision, write_partial_metadata};
use crate::protobuf;
use crate::refusal::Refusal;
use crate::registry::ResourceScope;
use crate::table;
use crate::watch::{ShownState, WatchEventType, frame};

/// Writes events in one form.
pub(super) struct Encoder {
    encoding: Encoding,
    shape: Shape,
    include: IncludeObject,
    over_clusters: bool,
    now: jiff::Timestamp,
    begun: tokio::time::Instant,
    /// Over all clusters: what cells are made by, since all rows have the same columns.
    face: Option<Arc<ResourceScope>>,
    /// The columns of a table, which only its first event has.
    columns: Option<Vec<ColumnDefinition>>,
}

/// Whether a bookmark ends the objects that were there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Initial {
    Ends,
    Not,
}

/// Forms of an event that watchers share.
const FORM_OVER_CLUSTERS: u32 = 0;
const FORM_METADATA: u32 = 1;
const FORM_METADATA_OVER_CLUSTERS: u32 = 2;
const FORM_CONVERTED: u32 = 3;
/// Added to the others: as a message.
const FORM_MESSAGE: u32 = 4;
const FORM_COUNT: u32 = 8;

// === impl Encoder ===

impl Encoder {
    pub(super) fn new(call: &Call<'_>, form: Negotiated) -> Result<Self, Refusal> {
        let columns = match form.shape {
            Shape::Table(_) => Some(table::columns(call.scope)),
            Shape::Object | Shape::Metadata | Shape::MetadataList => None,
        };
        Ok(Self {
            encoding: form.encoding,
            shape: form.shape,
            include: include_object(call.query)?,
            over_clusters: call.info.cluster == ClusterScope::All,
            face: call.each.map(|_| Arc::clone(call.scope)),
            now: call.context.now,
            begun: tokio::time::Instant::now(),
            columns,
        })
    }

    /// Appends an event about an object that is there.
    pub(super) fn entry(
        &mut self,
        out: &mut Vec<u8>,
        scope: &ResourceScope,
        event_type: WatchEventType,
        entry: &Entry,
    ) -> Result<(), Refusal> {
        if self.is_plain(scope, entry) {
            frame(out, event_type, entry.value());
            return Ok(());
        }
        let object = convert::served_bytes(scope, entry)?;
        let object = self.dress(scope, &object, entry.key())?;
        self.frame(out, event_type, &object);
        Ok(())
    }

    /// Appends an event about a change.
    pub(super) fn event(
        &mut self,
        out: &mut Vec<u8>,
        scope: &ResourceScope,
        event: &Event,
        event_type: WatchEventType,
        state: ShownState<'_>,
    ) -> Result<(), Refusal> {
        match state {
            ShownState::AsStored(entry) if self.is_plain(scope, entry) => {
                frame(out, event_type, entry.value());
            }
            ShownState::AsStored(entry) => {
                let object = self.shared_form(scope, event, entry)?;
                self.frame(out, event_type, &object);
            }
            ShownState::WithRevision(entry, revision) => {
                let stored = convert::served_bytes(scope, entry)?;
                let mut object = Vec::new();
                with_revision(&mut object, &stored, revision).ok_or_else(corrupt)?;
                let object = self.dress(scope, &object, entry.key())?;
                self.frame(out, event_type, &object);
            }
        }
        Ok(())
    }

    /// Appends that the caller sees an object no longer: its name, and nothing of what became of it.
    pub(super) fn gone(
        &mut self,
        out: &mut Vec<u8>,
        scope: &ResourceScope,
        entry: &Entry,
        revision: Revision,
    ) -> Result<(), Refusal> {
        let head = head(entry.value()).ok_or_else(corrupt)?;
        let mut metadata = json!({
            "name": head.name, "uid": head.uid, "resourceVersion": revision.to_string(),
        });
        if !head.namespace.is_empty() {
            metadata["namespace"] = json!(head.namespace);
        }
        let object = json!({
            "apiVersion": scope.version.api_version, "kind": scope.kind.gvk.kind, "metadata": metadata,
        });
        let object = self.dress(scope, object.to_string().as_bytes(), entry.key())?;
        self.frame(out, WatchEventType::Deleted, &object);
        Ok(())
    }

    /// Appends a bookmark.
    pub(super) fn bookmark(
        &mut self,
        out: &mut Vec<u8>,
        scope: &ResourceScope,
        revision: Revision,
        initial: Initial,
    ) {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial == Initial::Ends {
            metadata["annotations"] = json!({ANNOTATION_INITIAL_EVENTS_END: "true"});
        }
        let object = json!({
            "apiVersion": scope.version.api_version, "kind": scope.kind.gvk.kind, "metadata": metadata,
        });
        let object = match self.shape {
            Shape::Object => object,
            Shape::Metadata | Shape::MetadataList => json!({
                "apiVersion": table::META_API_VERSION, "kind": "PartialObjectMetadata", "metadata": metadata,
            }),
            Shape::Table(version) => {
                // A client that wants no objects still needs to know how far it has come.
                let include = match self.include {
                    IncludeObject::Object => IncludeObject::Object,
                    IncludeObject::None | IncludeObject::Metadata => IncludeObject::Metadata,
                };
                self.row(scope, &object, version, include)
            }
        };
        self.frame_value(out, WatchEventType::Bookmark, &object);
    }

    /// Appends what ends a watch.
    pub(super) fn error(&self, out: &mut Vec<u8>, status: &Status) {
        let status = serde_json::to_value(status).expect("a status is plain text and numbers");
        self.frame_value(out, WatchEventType::Error, &status);
    }

    /// Appends an event about an object in this watcher's form.
    fn frame(&self, out: &mut Vec<u8>, event_type: WatchEventType, object: &[u8]) {
        match self.encoding {
            Encoding::Json | Encoding::Yaml => frame(out, event_type, object),
            Encoding::Protobuf => protobuf::encode_event(out, event_type.name(), object),
        }
    }

    /// Appends an event that this module has made up.
    fn frame_value(&self, out: &mut Vec<u8>, event_type: WatchEventType, object: &Value) {
        match self.encode(object.to_string().into()) {
            Ok(object) => self.frame(out, event_type, &object),
            Err(refusal) => tracing::error!(error = %refusal, "cannot encode an event"),
        }
    }

    /// Encodes the bytes of an object as this watcher wants it.
    fn encode(&self, object: Bytes) -> Result<Bytes, Refusal> {
        match self.encoding {
            Encoding::Json | Encoding::Yaml => Ok(object),
            Encoding::Protobuf => {
                let value = serde_json::from_slice(&object).map_err(Refusal::internal)?;
                let message = protobuf::encode(&value);
                message.map(Bytes::from).map_err(Refusal::internal)
            }
        }
    }

    /// Whether stored bytes are what this watcher wants.
    fn is_plain(&self, scope: &ResourceScope, entry: &Entry) -> bool {
        self.shape == Shape::Object
            && self.encoding == Encoding::Json
            && !self.over_clusters
            && scope.serves_as_stored(entry.tag(), entry.value())
    }

    /// The new state of an event in this watcher's form, made by the first watcher that needs it.
    fn shared_form(
        &mut self,
        scope: &ResourceScope,
        event: &Event,
        entry: &Entry,
    ) -> Result<Bytes, Refusal> {
        let form = match (self.shape, self.over_clusters) {
            (Shape::Object, true) => FORM_OVER_CLUSTERS,
            (Shape::Object, false) => FORM_CONVERTED,
            (Shape::Metadata | Shape::MetadataList, false) => FORM_METADATA,
            (Shape::Metadata | Shape::MetadataList, true) => FORM_METADATA_OVER_CLUSTERS,
            // Columns belong to one watcher's first event, and ages to one moment.
            (Shape::Table(_), _) => {
                let object = convert::served_bytes(scope, entry)?;
                return self.dress(scope, &object, entry.key());
            }
        };
        let form = match self.encoding {
            Encoding::Json | Encoding::Yaml => form,
            Encoding::Protobuf => form | FORM_MESSAGE,
        };
        let encoding = scope
            .version
            .number
            .wrapping_mul(FORM_COUNT)
            .wrapping_add(form);
        let mut failure = None;
        let shared = event.frame(encoding, |_event| {
            let object = convert::served_bytes(scope, entry);
            let dressed = object.and_then(|object| self.dress(scope, &object, entry.key()));
            dressed.unwrap_or_else(|refusal| {
                failure = Some(refusal);
                Bytes::new()
            })
        });
        match failure {
            Some(refusal) => Err(refusal),
            None if shared.is_empty() => Err(corrupt()),
            None => Ok(shared),
        }
    }

    /// Brings the bytes of an object into this watcher's form.
    fn dress(
        &mut self,
        scope: &ResourceScope,
        object: &[u8],
        key: &[u8],
    ) -> Result<Bytes, Refusal> {
        let object = if self.over_clusters {
            with_cluster(object, key)?
        } else {
            Bytes::copy_from_slice(object)
        };
        match self.shape {
            Shape::Object => self.encode(object),
            Shape::Metadata | Shape::MetadataList => {
                let mut out = Vec::new();
                write_partial_metadata(&mut out, &object).ok_or_else(corrupt)?;
                self.encode(out.into())
            }
            Shape::Table(version) => {
                let value: Value = serde_json::from_slice(&object).map_err(Refusal::internal)?;
                Ok(self
                    .row(scope, &value, version, self.include)
                    .to_string()
                    .into())
            }
        }
    }

    /// A table of one row, with columns if it is the first.
    fn row(
        &mut self,
        scope: &ResourceScope,
        object: &Value,
        version: TableVersion,
        include: IncludeObject,
    ) -> Value {
        let mut table = Table::new(api_version_of(version));
        table.column_definitions = self.columns.take();
        api::meta::resource_version(object).clone_into(&mut table.metadata.resource_version);
        let elapsed = jiff::SignedDuration::try_from(self.begun.elapsed()).unwrap_or_default();
        let now = self.now.checked_add(elapsed).unwrap_or(self.now);
        let scope = self.face.as_deref().unwrap_or(scope);
        table.rows.push(table::row(scope, object, include, now));
        serde_json::to_value(&table).expect("a table is made of JSON values")
    }
}
