//! Which groups, versions and resources a logical cluster serves.
//!
//! Everything is made from one list of groups in the form of aggregated discovery: the aggregated documents themselves,
//! cached with their ETags under the hash of what is served, and the legacy documents, which few clients still ask for.
//!
//! Source: `apiserver/pkg/endpoints/discovery`, `kube-aggregator/pkg/apiserver`.

mod cache;
mod documents;
mod model;

use std::sync::Arc;

use http::{HeaderValue, StatusCode, header, request::Parts};

pub(crate) use cache::Cache;
pub use documents::Documents;
pub use model::{Groups, groups_of};

use crate::{
    negotiate::{self, Encoding, Offer},
    refusal::Refusal,
    respond::{self, Body, Response},
};

/// A page of discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page<'a> {
    /// `/api`
    Core,
    /// `/api/<version>`
    CoreVersion(&'a str),
    /// `/apis`
    Groups,
    /// `/apis/<group>`
    Group(&'a str),
    /// `/apis/<group>/<version>`
    GroupVersion(&'a str, &'a str),
}

// === impl Page ===

impl<'a> Page<'a> {
    /// The page that a path without cluster prefix is for, if it is for one.
    pub fn of(path: &'a str) -> Option<Self> {
        let mut parts = path.trim_matches('/').split('/');
        let prefix = parts.next()?;
        match (prefix, parts.next(), parts.next(), parts.next()) {
            ("api", None, None, None) => Some(Self::Core),
            ("api", Some(version), None, None) => Some(Self::CoreVersion(version)),
            ("apis", None, None, None) => Some(Self::Groups),
            ("apis", Some(group), None, None) => Some(Self::Group(group)),
            ("apis", Some(group), Some(version), None) => Some(Self::GroupVersion(group, version)),
            _ => None,
        }
    }
}

/// Answers with a page.
///
/// # Errors
/// The plain 404 for a group or version that is not served, and 406.
pub fn serve(
    documents: &Arc<Documents>,
    page: Page<'_>,
    parts: &Parts,
) -> Result<Response, Refusal> {
    if let Page::Core | Page::Groups = page
        && let Some(form) = negotiate::accepts_aggregated(&parts.headers, &["v2", "v2beta1"])
    {
        return Ok(aggregated(documents, page, form, parts));
    }
    let form = negotiate::accept(parts, Offer::Message)?;
    let document = documents.legacy(page).ok_or_else(Refusal::no_such_path)?;
    respond::value(StatusCode::OK, form, &document)
}

/// Refuses discovery to a client that asks for the aggregated document, which is client-go: it reads no Status there. `None` for
/// anything else.
pub(crate) fn refuse(refusal: &Refusal, parts: &Parts, path: &str) -> Option<Response> {
    let is_asked = matches!(Page::of(path), Some(Page::Core | Page::Groups))
        && negotiate::accepts_aggregated(&parts.headers, &["v2", "v2beta1"]).is_some();
    respond::forbidden_as_text(refusal).filter(|_| is_asked)
}

fn aggregated(
    documents: &Documents,
    page: Page<'_>,
    (version, encoding): (&str, Encoding),
    parts: &Parts,
) -> Response {
    let document = documents.aggregated(page == Page::Core, version == "v2");
    let message = match encoding {
        Encoding::Protobuf => document.message(),
        Encoding::Json | Encoding::Yaml => None,
    };
    let (bytes, content_type) = message.unwrap_or((&document.bytes, document.content_type));
    let mut response = if document.matches(&parts.headers) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        Response::new(Body::full(bytes.clone()))
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::ETAG, document.etag.clone());
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    response
}

#[cfg(test)]
mod tests;
