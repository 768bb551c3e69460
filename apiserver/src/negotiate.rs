//! Finds the form in which a client wants its answer and the form in which it sends its body.
//!
//! The clauses of `Accept` are tried by quality, then in the order in which they stand; one that cannot be met is passed
//! over. Protobuf answers are given where Kubernetes has a message: of built-in kinds, of metadata, of refusals and of
//! discovery; a Table never is one. CBOR answers are never given. Protobuf bodies are taken where the kind is a built-in one.
//!
//! Source: `apiserver/pkg/endpoints/handlers/negotiation/negotiate.go`.

mod accept;

use api::{query::Query, status::Status};
use http::{HeaderMap, header, request::Parts};

use crate::refusal::Refusal;

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
    /// `application/vnd.kubernetes.protobuf`
    Protobuf,
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
    /// Only the object itself: what is not stored.
    Plain,
    /// The same, where Kubernetes has a message for it: refusals too.
    Message,
    /// One stored object: Table or PartialObjectMetadata too.
    Object,
    /// A list of stored objects: Table or PartialObjectMetadataList too.
    List,
    /// A watch: as one object, and never YAML.
    Watch,
}

/// Of which shapes Kubernetes has a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Messages {
    /// Of none.
    None,
    /// Of the metadata of an object: of every kind that is stored.
    Metadata,
    /// Of the object too.
    All,
}

/// The media type of a body that a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaType {
    /// `application/json`
    Json,
    /// `application/yaml`
    Yaml,
    /// `application/vnd.kubernetes.protobuf`
    Protobuf,
    /// `application/json-patch+json`
    JsonPatch,
    /// `application/merge-patch+json`
    MergePatch,
    /// `application/strategic-merge-patch+json`
    StrategicMergePatch,
    /// `application/apply-patch+yaml`
    ApplyYaml,
}

/// Finds the form of the answer.
///
/// # Errors
/// 406 where no clause of `Accept` can be met.
pub fn accept(parts: &Parts, offer: Offer) -> Result<Negotiated, Refusal> {
    let messages = match offer {
        Offer::Plain => Messages::None,
        Offer::Message => Messages::All,
        Offer::Object | Offer::List | Offer::Watch => Messages::Metadata,
    };
    accept_with(parts, offer, messages)
}

/// [`accept`] for a kind, of which there may be messages.
///
/// # Errors
/// 406 where no clause of `Accept` can be met.
pub fn accept_with(parts: &Parts, offer: Offer, messages: Messages) -> Result<Negotiated, Refusal> {
    let mut negotiated = accept::choose(&parts.headers, offer, messages).ok_or_else(|| {
        if messages == Messages::All && !accept::names_one_of(&parts.headers, produced(offer)) {
            return not_produced(offer);
        }
        let as_object = || accept::choose(&parts.headers, Offer::Object, messages);
        not_acceptable(offer, offer == Offer::Watch && as_object().is_some())
    })?;
    negotiated.pretty |= wants_pretty(parts);
    Ok(negotiated)
}

/// The form of a refusal: as for an object, and JSON where that cannot be had.
pub(crate) fn accept_refusal(parts: &Parts) -> Negotiated {
    let chosen = accept::choose(&parts.headers, Offer::Message, Messages::All);
    let mut negotiated = chosen.unwrap_or(Negotiated::JSON);
    negotiated.pretty |= wants_pretty(parts);
    negotiated
}

/// Whether the client names `media_type` or a wildcard that covers it, or nothing at all. For documents that come in
/// one form; parameters are not looked at.
pub(crate) fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    accept::names(headers, media_type)
}

/// Whether `Accept` prefers an aggregated discovery document over the plain ones: which of `versions` (of `apidiscovery.k8s.io`) it prefers, and
/// how that is encoded. Of the first version there is a message.
pub(crate) fn accepts_aggregated<'a>(
    headers: &HeaderMap,
    versions: &[&'a str],
) -> Option<(&'a str, Encoding)> {
    accept::aggregated(headers, versions)
}

/// Reads the media type of the body; one that is absent is JSON.
///
/// # Errors
/// 415 where it is not among `supported`.
pub fn content_type(headers: &HeaderMap, supported: &[MediaType]) -> Result<MediaType, Refusal> {
    let named = match headers.get(header::CONTENT_TYPE) {
        None => Some(MediaType::Json),
        Some(value) => value.to_str().ok().and_then(|value| {
            let essence = value.split(';').next().unwrap_or_default().trim();
            if essence.is_empty() {
                return Some(MediaType::Json);
            }
            MediaType::ALL
                .into_iter()
                .find(|known| known.as_str().eq_ignore_ascii_case(essence))
        }),
    };
    named
        .filter(|named| supported.contains(named))
        .ok_or_else(|| {
            let supported: Vec<&str> = supported.iter().map(|known| known.as_str()).collect();
            Status::unsupported_media_type(&supported).into()
        })
}

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The media types that a route of a built-in kind says it has; none where it is not known whose the route is.
fn produced(offer: Offer) -> &'static [&'static str] {
    match offer {
        Offer::Plain | Offer::Message => &[],
        Offer::Object => &["application/json", "application/yaml", PROTOBUF],
        // One route answers both.
        Offer::List | Offer::Watch => &[
            "application/json",
            "application/yaml",
            PROTOBUF,
            "application/json;stream=watch",
            "application/vnd.kubernetes.protobuf;stream=watch",
        ],
    }
}

/// The refusal of a route that has none of the media types that are named, whatever their parameters.
///
/// Source: `github.com/emicklei/go-restful/v3` (`detectRoute`), `apiserver/pkg/server/genericapiserver.go` (`serviceErrorHandler`).
fn not_produced(offer: Offer) -> Refusal {
    let all = produced(offer).join(", ");
    let text = format!("406: Not Acceptable\n\nAvailable representations: {all}");
    Status::failure(406, api::StatusReason::NotAcceptable, text).into()
}

/// The refusal, which names what can be had: other names where only a stream of it cannot.
fn not_acceptable(offer: Offer, is_streamed: bool) -> Refusal {
    let accepted: &[&str] = match offer {
        _ if is_streamed => &[
            "application/json;stream=watch",
            "application/vnd.kubernetes.protobuf;stream=watch",
        ],
        Offer::Plain => &["application/json", "application/yaml"],
        Offer::Message | Offer::Object | Offer::List | Offer::Watch => {
            &["application/json", "application/yaml", PROTOBUF]
        }
    };
    Status::not_acceptable(accepted).into()
}

/// Whether the client is one that people read.
fn wants_pretty(parts: &Parts) -> bool {
    if let Some(query) = parts.uri.query()
        && query.contains("pretty")
        && let Some(pretty) = Query::parse(query).optional_flag("pretty")
    {
        return pretty;
    }
    parts.headers.get(header::USER_AGENT).is_some_and(|agent| {
        [&b"curl"[..], b"Wget", b"Mozilla/5.0"]
            .iter()
            .any(|reader| agent.as_bytes().starts_with(reader))
    })
}

// === impl Negotiated ===

impl Negotiated {
    /// The object itself as JSON in one line.
    pub const JSON: Self = Self {
        encoding: Encoding::Json,
        shape: Shape::Object,
        pretty: false,
    };

    /// Whether stored JSON can go out as it is.
    pub const fn is_stored_form(self) -> bool {
        matches!(
            self,
            Self {
                encoding: Encoding::Json,
                shape: Shape::Object,
                pretty: false
            }
        )
    }
}

// === impl Encoding ===

impl Encoding {
    /// The value of `Content-Type`.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => PROTOBUF,
        }
    }

    /// The value of `Content-Type` of a watch.
    pub(crate) const fn stream_content_type(self) -> &'static str {
        match self {
            Self::Json | Self::Yaml => self.content_type(),
            Self::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        }
    }
}

// === impl MediaType ===

impl MediaType {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Json,
        Self::Yaml,
        Self::Protobuf,
        Self::JsonPatch,
        Self::MergePatch,
        Self::StrategicMergePatch,
        Self::ApplyYaml,
    ];

    /// The name, without parameters.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => PROTOBUF,
            Self::JsonPatch => "application/json-patch+json",
            Self::MergePatch => "application/merge-patch+json",
            Self::StrategicMergePatch => "application/strategic-merge-patch+json",
            Self::ApplyYaml => "application/apply-patch+yaml",
        }
    }
}

#[cfg(test)]
mod tests;
