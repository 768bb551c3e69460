//! What is relayed to a spoke is read first where the audit records it.

use bytes::Bytes;
use http::request::Parts;

use crate::{
    audit,
    authorize::Authorized,
    handle,
    refusal::Refusal,
    request::{Level, Verb},
    respond::RequestBody,
};

/// Reads what is about to be relayed, where it is recorded.
///
/// # Errors
/// As [`handle::receive`].
pub(super) async fn recorded(
    request: &Authorized<Parts>,
    body: RequestBody,
) -> Result<RequestBody, Refusal> {
    let context = request.context();
    let Some(trail) = context
        .trail
        .as_ref()
        .filter(|it| it.level() >= Level::Request)
    else {
        return Ok(body);
    };
    let verb = request.info().verb;
    if verb.is_read_only() {
        return Ok(body);
    }
    let received = handle::receive(context, body).await?;
    let media = audit::media_of(&request.request().headers);
    // What cannot be read the spoke refuses.
    if let Some(document) = media.and_then(|media| audit::value_of(media, &received)) {
        match verb {
            Verb::Create | Verb::Update => trail.note_object(&document),
            _ => trail.note_document(&document),
        }
    }
    Ok(RequestBody::full(Bytes::clone(&received)))
}
