//! Where an object was made, if not at the hub's path: the annotations `wheelhouse.dev/origin` of instances, and
//! `internal.wheelhouse.dev/migration` of definitions and revisions that were taken over from kro.
//!
//! An instance that was made in its spoke is taken up by the syncer, with the uid that it has there. Whoever reads it later finds out by the
//! annotation which copy has the truth, so no client may say it.
//!
//! Invariant: only a request of the syncer, as itself, makes an object with a uid or an origin that it says, and it says both or
//! neither. The syncer also writes what templates say, and these say what a tenant wrote into an instance.

use api::wheelhouse::keys::{ANNOTATION_MIGRATION, ANNOTATION_ORIGIN};
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
        && (origin::is_of_spoke(object)
            || meta::annotation(object, ANNOTATION_MIGRATION).is_some());
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

/// Leaves the origin and the state of a migration as they are, whatever a client says.
pub(super) fn stamp(call: &Call<'_>, object: &mut Value, live: Option<&Value>) {
    if call.scope.strategy().author == AuthorStamp::Absent {
        return;
    }
    let by_syncer = author::is_syncer(call.context);
    let origin = kept_origin(object, live, by_syncer).map(str::to_owned);
    set(object, ANNOTATION_ORIGIN, origin);
    // What a template says of a definition that it makes is applied, and is not the syncer's word.
    let says = by_syncer && !is_apply(call);
    let migration = kept_migration(object, live, says).map(str::to_owned);
    set(object, ANNOTATION_MIGRATION, migration);
}

/// Whether a request applies a configuration.
fn is_apply(call: &Call<'_>) -> bool {
    let media = call.parts.headers.get(http::header::CONTENT_TYPE);
    media.is_some_and(|media| media.as_bytes().starts_with(b"application/apply-patch"))
}

fn set(object: &mut Value, annotation: &str, value: Option<String>) {
    match value {
        Some(value) => meta::set_annotation(object, annotation, &value),
        None => meta::remove_annotation(object, annotation),
    }
}

/// Returns the origin that a written object has: the one it had, and for a new one the one that the syncer imports it with.
fn kept_origin<'v>(object: &'v Value, live: Option<&'v Value>, by_syncer: bool) -> Option<&'v str> {
    // No other way of creation leaves a uid in what is sent.
    let is_import = live.is_none() && by_syncer && !meta::uid(object).is_empty();
    let known = if is_import { Some(object) } else { live };
    meta::annotation(known?, ANNOTATION_ORIGIN)
}

/// Returns how far the migration of a written object is: what the syncer says of one that it imported, and for everyone else what it was.
fn kept_migration<'v>(
    object: &'v Value,
    live: Option<&'v Value>,
    by_syncer: bool,
) -> Option<&'v str> {
    let known = live.and_then(|live| meta::annotation(live, ANNOTATION_MIGRATION));
    let is_import = live.is_none() && !meta::uid(object).is_empty();
    if !by_syncer || !(is_import || live.is_some()) {
        return known;
    }
    meta::annotation(object, ANNOTATION_MIGRATION).or(known)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_an_import_has_an_origin_and_nobody_changes_it() {
        let says = |origin: &str| json!({"metadata": {"annotations": {ANNOTATION_ORIGIN: origin}}});
        let nothing = json!({"metadata": {}});
        let mut imported = says("spoke");
        imported["metadata"]["uid"] = json!("11f4dc9c-3b0a-4c3e-9d7e-0e7c0a4e6c7d");

        assert_eq!(
            kept_origin(&imported, None, true),
            Some("spoke"),
            "an import"
        );
        assert_eq!(
            kept_origin(&imported, None, false),
            None,
            "a user's uid and origin"
        );
        assert_eq!(
            kept_origin(&says("spoke"), None, true),
            None,
            "what a template says"
        );
        assert_eq!(
            kept_origin(&says("spoke"), None, false),
            None,
            "what a user says"
        );

        for by_syncer in [true, false] {
            for sent in [&nothing, &says("hub"), &imported] {
                let had = says("spoke");
                assert_eq!(
                    kept_origin(sent, Some(&had), by_syncer),
                    Some("spoke"),
                    "{sent}"
                );
                assert_eq!(kept_origin(sent, Some(&nothing), by_syncer), None, "{sent}");
            }
        }
    }

    #[test]
    fn only_the_syncer_says_how_far_a_migration_is() {
        let says =
            |state: &str| json!({"metadata": {"annotations": {ANNOTATION_MIGRATION: state}}});
        let mut imported = says("taking");
        imported["metadata"]["uid"] = json!("11f4dc9c-3b0a-4c3e-9d7e-0e7c0a4e6c7d");
        let (nothing, live) = (json!({"metadata": {}}), says("taken"));
        // (what, what is sent, what is there, whether the syncer sends it, what is stored)
        for (name, object, known, by_syncer, want) in [
            ("an import", &imported, None, true, Some("taking")),
            ("a user's import", &imported, None, false, None),
            ("a template's", &says("taking"), None, true, None),
            (
                "a step",
                &says("returning"),
                Some(&live),
                true,
                Some("returning"),
            ),
            (
                "a user's step",
                &says("returning"),
                Some(&live),
                false,
                Some("taken"),
            ),
            (
                "a user's removal",
                &nothing,
                Some(&live),
                false,
                Some("taken"),
            ),
            (
                "an apply without it",
                &nothing,
                Some(&live),
                true,
                Some("taken"),
            ),
            (
                "one made at the path",
                &says("returning"),
                Some(&nothing),
                true,
                Some("returning"),
            ),
            (
                "a user's of one made at the path",
                &says("taken"),
                Some(&nothing),
                false,
                None,
            ),
        ] {
            assert_eq!(kept_migration(object, known, by_syncer), want, "{name}");
        }
    }
}
