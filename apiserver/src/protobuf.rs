//! Objects as `application/vnd.kubernetes.protobuf`, which typed clients send and ask for where a kind is built in.
//!
//! Such an object is the four bytes `k8s\0` and a `runtime.Unknown` that names the kind and holds the message. Messages are
//! decoded to the JSON that the same client would have sent as JSON, and encoded from JSON to the bytes that Kubernetes makes of the same
//! object, by tables of field numbers that are taken from the Kubernetes modules (`hack/protobuf-fields`). The store knows JSON alone.
//!
//! Invariant: bytes of a client never make this panic; depth is bounded by [`DEPTH_MAX`].
//! Source: apimachinery/pkg/runtime/serializer/protobuf/protobuf.go.
#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

mod encode;
mod message;
mod reading;
mod scalar;
mod tables;
mod wire;
mod zeros;

use bytes::Bytes;
use serde_json::Value;

pub(crate) use reading::schemas::unknown_in_schemas;
pub(crate) use reading::{Misread, read_go};
use tables::Tables;
use wire::{Field, Reader};
pub(crate) use zeros::omit_zeros;

/// Messages within messages. Kubernetes has none; CRD schemas, which nest deepest, are refused at a depth of about 30 by
/// size long before.
pub const DEPTH_MAX: usize = 128;

/// The envelope: what the message is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Envelope {
    /// As in JSON.
    pub api_version: String,
    /// As in JSON.
    pub kind: String,
    /// The encoded message.
    raw: Vec<u8>,
}

/// Why a body could not be decoded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The four leading bytes are others.
    #[error(
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
    )]
    Prefix,
    /// The bytes end too early or are no protobuf.
    #[error("unexpected EOF")]
    Truncated,
    /// A field has a wire type that its number does not allow.
    #[error("wrong wire type for field {name}")]
    WireType {
        /// The field in JSON.
        name: String,
    },
    /// Text that is not UTF-8, JSON in a field that is none, a number that JSON cannot hold, or a time out of range.
    #[error("field {name} cannot be represented")]
    Content {
        /// The field in JSON.
        name: String,
    },
    /// Nested deeper than [`DEPTH_MAX`].
    #[error("message is nested too deeply")]
    Depth,
    /// What is decoded would take too much memory.
    #[error("message is too large: {0}")]
    TooLarge(#[source] api::growth::TooLarge),
    /// The kind has no protobuf form here.
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    Kind {
        /// The kind.
        kind: String,
        /// Its group and version.
        api_version: String,
    },
}

const PREFIX: &[u8; 4] = b"k8s\0";

/// Whether a kind has a message.
pub fn has_message(api_version: &str, kind: &str) -> bool {
    Tables::get().root(api_version, kind).is_some()
}

/// Encodes an object, or a list of objects of one kind, with its envelope.
///
/// # Errors
/// [`Error::Kind`] for a kind without a message, [`Error::Content`] for a value that is not of the type of its field.
pub fn encode(object: &Value) -> Result<Vec<u8>, Error> {
    encode::object(Tables::get(), object)
}

/// Encodes one item of a list, without an envelope.
///
/// # Errors
/// As of [`encode`].
pub(crate) fn encode_item(api_version: &str, kind: &str, item: &Value) -> Result<Vec<u8>, Error> {
    encode::item(Tables::get(), (api_version, kind), item)
}

/// The bytes of a list around its items, each of which is an [`encode_item`].
///
/// # Errors
/// As of [`encode`].
pub(crate) fn encode_list(
    (api_version, list_kind): (&str, &str),
    metadata: &Value,
    items: Vec<Bytes>,
) -> Result<Vec<Bytes>, Error> {
    encode::list(Tables::get(), (api_version, list_kind), metadata, items)
}

/// Encodes an event of a watch as it stands in the stream, with its length before it; `object` has its envelope.
pub(crate) fn encode_event(out: &mut Vec<u8>, event_type: &str, object: &[u8]) {
    encode::event(out, event_type, object);
}

/// Reads the envelope of a body. A kind that the envelope does not name is the expected one.
pub fn envelope(body: &[u8]) -> Result<Envelope, Error> {
    let content = body.strip_prefix(PREFIX.as_slice()).ok_or(Error::Prefix)?;
    let mut envelope = Envelope::default();
    let mut reader = Reader::new(content);
    while let Some((number, field)) = reader.next()? {
        match (number, field) {
            (1, Field::Bytes(bytes)) => type_meta(bytes, &mut envelope)?,
            (2, Field::Bytes(bytes)) => envelope.raw = bytes.to_vec(),
            _ => {}
        }
    }
    Ok(envelope)
}

/// How Go names a field of a kind, with the struct that holds it, and its type; the path has no indexes.
pub(crate) fn go_names(api_version: &str, kind: &str, path: &[&str]) -> Option<(String, String)> {
    Tables::get().go_names(api_version, kind, path)
}

fn type_meta(bytes: &[u8], envelope: &mut Envelope) -> Result<(), Error> {
    let mut reader = Reader::new(bytes);
    while let Some((number, field)) = reader.next()? {
        match (number, field) {
            (1, Field::Bytes(text)) => envelope.api_version = scalar::text(text, "apiVersion")?,
            (2, Field::Bytes(text)) => envelope.kind = scalar::text(text, "kind")?,
            _ => {}
        }
    }
    Ok(())
}

// === impl Envelope ===

impl Envelope {
    /// Decodes the message as the kind that the envelope names, `apiVersion` and `kind` included.
    pub fn decode(&self) -> Result<Value, Error> {
        let tables = Tables::get();
        let message = tables
            .root(&self.api_version, &self.kind)
            .ok_or_else(|| Error::Kind {
                kind: self.kind.clone(),
                api_version: self.api_version.clone(),
            })?;
        let decoding = message::Decoding::new(tables);
        let mut fields = message::decode(&decoding, message, &self.raw, 0)?;
        fields.insert("apiVersion".into(), Value::String(self.api_version.clone()));
        fields.insert("kind".into(), Value::String(self.kind.clone()));
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests;
