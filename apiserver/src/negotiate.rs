//! Finds the form in which a client wants its answer and the form in which it sends its body.
//!
//! Source: `apiserver/pkg/endpoints/handlers/negotiation/negotiate.go`, `api-compat.md` 1.4.

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// How it is encoded.
    pub encoding: Encoding,
    /// What of the object is shown.
    pub shape: Shape,
    /// Whether JSON is indented.
    pub pretty: bool,
}

/// How an answer is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// `application/json`
    Json,
    /// `application/yaml`
    Yaml,
}

/// What of an object an answer shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The object or list itself.
    Object,
    /// `meta.k8s.io` Table, in the version that was asked for.
    Table(TableVersion),
    /// `meta.k8s.io/v1` PartialObjectMetadata of one object or of each watch event.
    Metadata,
    /// `meta.k8s.io/v1` PartialObjectMetadataList of a list.
    MetadataList,
}

/// The version of a Table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableVersion {
    /// `meta.k8s.io/v1`
    V1,
    /// `meta.k8s.io/v1beta1`
    V1Beta1,
}

/// Which shapes the endpoint can give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Only the object itself: what is not stored, and discovery.
    Plain,
    /// One stored object: Table or PartialObjectMetadata too.
    Object,
    /// A list of stored objects: Table or PartialObjectMetadataList too.
    List,
    /// A watch: as one object, and never YAML.
    Watch,
}
