//! Where an instance was made: the annotation `wheelhouse.dev/origin`.
//!
//! An instance that was made in its spoke is taken up by the syncer, with the uid that it has there. Whoever reads it later finds out by the
//! annotation which copy has the truth, so no client may say it.
//!
//! Invariant: only a request of the syncer, as itself, makes an object with a uid or an origin that it says, and it says both or
//! neither. The syncer also writes what templates say, and these say what a tenant wrote into an instance.

use api::wheelhouse::keys::ANNOTATION_ORIGIN;
use api::wheelhouse::origin;
use api::{Status, meta};
use serde_json::Value;

use super::author;
use crate::call::Call;
use crate::refusal::Refusal;
use crate::strategy::rules::AuthorStamp;

/// Returns the uid that a new object keeps; `None` for one that gets a uid of its own.
///
/// # Errors
/// 400 for what is no uid.
pub(crate) fn kept_uid(call: &Call<'_>, object: &Value) -> Result<Option<String>, Refusal> {
    let is_import = call.scope.strategy().author == AuthorStamp::Stamped
        && author::is_syncer(call.context)
        && origin::is_of_spoke(object);
    if !is_import {
        return Ok(None);
    }
    let uid = meta::uid(object);
    if !origin::is_uid(uid) {
        let text = format!("{uid:?} is not a uid: nothing is taken up under it");
        return Err(Status::bad_request(text).into());
    }
    Ok(Some(uid.to_owned()))
}

/// Returns whether a write is a user's wish of an instance that was made in its spoke.
pub(crate) fn is_wish(call: &Call<'_>, live: &Value) -> bool {
    call.scope.strategy().author == AuthorStamp::Stamped
        && origin::is_of_spoke(live)
        && !author::is_syncer(call.context)
}

/// Leaves the origin as it is, whatever a client says.
pub(super) fn stamp(call: &Call<'_>, object: &mut Value, live: Option<&Value>) {
    if call.scope.strategy().author == AuthorStamp::Absent {
        return;
    }
    // No other way of creation leaves a uid in what is sent.
    let is_import = live.is_none() && !meta::uid(object).is_empty();
    if is_import && author::is_syncer(call.context) {
        return;
    }
    let known = live.and_then(|live| meta::annotation(live, ANNOTATION_ORIGIN));
    if known == meta::annotation(object, ANNOTATION_ORIGIN) {
        return;
    }
    match known.map(str::to_owned) {
        Some(known) => meta::set_annotation(object, ANNOTATION_ORIGIN, &known),
        None => meta::remove_annotation(object, ANNOTATION_ORIGIN),
    }
}
