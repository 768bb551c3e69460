//! Changes of instances that were made in a spoke: the spoke has their truth, so what a user wants is written there first, as the user.
//!
//! # Invariants
//! - A change is made of the state that the spoke has: of an older one it is refused with a conflict, and nobody's change is lost.
//! - Nothing of what passes between the two copies changes here before the spoke has taken it, by its own rights and admission.
//! - What the spoke answers is judged by the schema like anything that comes from outside.
//! - Finalizers, owners and the status belong to the copy here.

use api::query::{FieldValidation, UpdateOptions};
use api::wheelhouse::keys::ANNOTATION_SPOKE_VERSION;
use api::wheelhouse::origin::{difference, is_shared, shared};
use api::{Status, meta};
use serde_json::{Map, Value, json};

use super::decode::{self, Nulls};
use super::write::Mode;
use super::{prepare, tried};
use crate::admit::{author, origin};
use crate::call::{Call, SpokeVerb, SpokeWrite, SpokeWrites, Target};
use crate::refusal::Refusal;
use crate::strategy::endpoint::Endpoint;

/// How often a change is tried again because the object changed in the spoke meanwhile: mostly its status did.
const ATTEMPTS_MAX: usize = 5;

/// Whether a change was written in a spoke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// It was.
    Yes,
    /// It is the hub's alone.
    No,
}

/// Writes a change where the instance was made, if it was made in a spoke; `object` is what became of it there.
///
/// # Errors
/// What the spoke says against it, and 503 while it is away.
pub(super) async fn write(
    call: &Call<'_>,
    target: &Target,
    object: &mut Value,
    live: &Value,
    mode: Mode,
) -> Result<Taken, Refusal> {
    let is_status = call.endpoint == Endpoint::Status;
    if is_status || meta::is_terminating(live) || !origin::is_wish(call, live) {
        return Ok(Taken::No);
    }
    let Some(patch) = difference(live, object) else {
        return Ok(Taken::No);
    };
    let (Some(spoke), Some(user)) = (&call.shared.spoke_writes, author::sender(call.context))
    else {
        return Err(tried::unavailable(target));
    };
    let manager = UpdateOptions::from_query(call.query)?.field_manager;
    let mut write = SpokeWrite {
        verb: SpokeVerb::Patch,
        body: patch,
        is_trial: mode == Mode::DryRun,
        ..SpokeWrite::of(call, target, user, &manager)
    };
    let taken = write_there(call, spoke.as_ref(), &mut write, live).await?;
    meta::set_annotation(
        object,
        ANNOTATION_SPOKE_VERSION,
        meta::resource_version(&taken),
    );
    if take_over(object, &taken) {
        decode::normalize(call.scope, object, FieldValidation::Ignore, Nulls::Dropped)
            .map_err(|abnormal| abnormal.refused(|cause| Status::bad_request(cause).into()))?;
        prepare::validate_update(call, object, live)?;
    }
    Ok(Taken::Yes)
}

/// Writes a change that was made of the state here, if the spoke has no other state by now.
async fn write_there(
    call: &Call<'_>,
    spoke: &dyn SpokeWrites,
    write: &mut SpokeWrite,
    live: &Value,
) -> Result<Value, Refusal> {
    for _attempt in 0..ATTEMPTS_MAX {
        let there = spoke.read(write).await?;
        if meta::uid(&there) != meta::uid(live) || difference(live, &there).is_some() {
            break; // what was changed there is about to come here
        }
        for (field, value) in [
            ("uid", meta::uid(&there)),
            ("resourceVersion", meta::resource_version(&there)),
        ] {
            write.body["metadata"][field] = json!(value);
        }
        match spoke.write(write).await {
            Err(refusal) if refusal.status().is_some_and(|status| status.code == 409) => {}
            answer => return answer,
        }
    }
    Err(Status::modified(call.resource(), &write.name).into())
}

/// Lets an object be as the spoke has it. Returns whether that is another than was wanted.
fn take_over(object: &mut Value, taken: &Value) -> bool {
    let mut differs = object["spec"] != taken["spec"];
    if differs {
        object["spec"] = taken["spec"].clone();
    }
    for part in ["labels", "annotations"] {
        let here = object["metadata"][part].as_object();
        let own = here
            .into_iter()
            .flatten()
            .filter(|(key, _)| !is_shared(key));
        let mut keys: Map<String, Value> = own
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        if let Value::Object(from_spoke) = shared(taken, part) {
            keys.extend(from_spoke);
        }
        let keys = Value::Object(keys);
        if object["metadata"][part].is_null() && keys == json!({}) {
            continue;
        }
        differs |= object["metadata"][part] != keys;
        object["metadata"][part] = keys;
    }
    differs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_spoke_answers_is_taken_and_the_hubs_own_keys_stay() {
        let mut object = json!({"metadata": {"labels": {"team": "b", "kro.run/owned": "true"}}, "spec": {"size": 2}});
        let same = json!({"metadata": {"labels": {"team": "b", "helm.sh/chart": "c"}, "uid": "u"}, "spec": {"size": 2}});
        let before = object.clone();
        assert!(!take_over(&mut object, &same), "it is as it was wanted");
        assert_eq!(object, before, "nothing else comes from the spoke");
        let other = json!({"metadata": {"labels": {"team": "b"}, "annotations": {"by": "policy"}}, "spec": {"size": 3}});
        assert!(
            take_over(&mut object, &other),
            "a policy of the spoke has changed it"
        );
        let want = json!({"metadata": {"labels": {"team": "b", "kro.run/owned": "true"}, "annotations": {"by": "policy"}},
            "spec": {"size": 3}});
        assert_eq!(object, want, "as the spoke has it");
    }
}
