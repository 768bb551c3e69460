//! Writes of controllers that run in this process, beside any request.
//!
//! They go the way of all writes from the strategy on: what a controller changes is not attributed to a manager, and is
//! not validated, since it is only what the controller itself may say.

use std::time::Duration;

use api::meta;
use api::query::DeleteOptions;
use serde_json::Value;
use storage::Expect;
use tokio::time::Instant;

use super::convert;
use super::delete::{Deleted, delete_object};
use super::write::{self, Failure, Oversize, Put};
use crate::call::{Access, Reading, Shared, Target};
use crate::registry::ResourceScope;

/// How often a change is made anew because another write came first.
const ATTEMPTS_MAX: usize = 16;

/// What a write of a controller needs.
pub(crate) fn access<'a>(
    shared: &'a Shared,
    scope: &'a ResourceScope,
    timeout: Duration,
) -> Access<'a> {
    let (now, deadline) = (jiff::Timestamp::now(), Instant::now() + timeout);
    Access {
        shared,
        scope,
        now,
        deadline,
        verb: "update",
        reading: Reading::Stored,
        fence: None,
    }
}

/// Changes an object; a terminating one that has no finalizer left goes. Answers the object as it is then, `None` if
/// it is gone, or if it cannot be written, which is logged.
pub(crate) async fn change(
    access: &Access<'_>,
    target: &Target,
    change: impl Fn(&mut Value),
) -> Option<Value> {
    for _attempt in 0..ATTEMPTS_MAX {
        let entry = access.shared.store.get(&target.key)?;
        let live = convert::live(access, &entry).await.ok()?;
        let mut object = live.clone();
        change(&mut object);
        let expect = Expect::Revision(entry.modified());
        let goes = meta::is_terminating(&object)
            && meta::finalizers(&object).is_empty()
            && (access.scope.strategy().deletion.may_be_removed)(&object);
        let done = if goes {
            write::remove(access, target, &live, expect)
                .await
                .map(|()| None)
        } else if object == live {
            return Some(live);
        } else {
            let oversize = Oversize::DropManagedFields;
            let put = Put {
                key: &target.key,
                expect,
                oversize,
                beside: Vec::new(),
            };
            put.commit(access, &mut object)
                .await
                .map(|_entry| Some(object))
        };
        match done {
            Ok(object) => return object,
            Err(Failure::Raced(_) | Failure::Collided) => {}
            Err(Failure::Refused(refusal)) => {
                tracing::warn!(name = target.name, error = %refusal, "controller cannot update an object");
                return None;
            }
        }
    }
    tracing::warn!(
        name = target.name,
        "a controller cannot write: others write all the time"
    );
    None
}

/// Deletes an object; tells whether it is gone.
pub(crate) async fn delete(access: &Access<'_>, target: &Target, options: &DeleteOptions) -> bool {
    match delete_object(access, target, options).await {
        Ok(Deleted::Gone(_)) => true,
        Ok(Deleted::Waits(_)) => false,
        Err(refusal) => {
            let absent = refusal.status().is_some_and(api::Status::is_not_found);
            if !absent {
                tracing::warn!(name = target.name, error = %refusal, "controller cannot delete an object");
            }
            absent
        }
    }
}
