//! Whose intent an object is: the annotation `internal.wheelhouse.dev/author`.
//!
//! Children of an instance are made in their author's name, so the author must be who the server saw, not who the
//! object says. It is set at creation and whenever the desired state changes; a client that sends another one is
//! ignored in silence, as with every field of the system.
//!
//! Invariant: only a request of this process may say the author itself, and only the syncer does.

use api::meta;
use api::wheelhouse::keys::{ANNOTATION_AUTHOR, USER_SYNCER};
use serde_json::{Value, json};

use crate::authenticate::UserInfo;
use crate::context::RequestOrigin;
use crate::handle::call::Call;
use crate::registry::scope::{AuthorStamp, StatusMode};

/// Sets the author of a new object, or of a changed one.
pub(super) fn stamp(call: &Call<'_>, object: &mut Value, live: Option<&Value>) {
    if call.scope.rules.author == AuthorStamp::Absent {
        return;
    }
    // As itself: whoever it acts as may have any name, this one too.
    let trusted = call.context.origin == RequestOrigin::InProcess
        && call.context.impersonator.is_none()
        && call.context.user.username == USER_SYNCER;
    if trusted && meta::annotation(object, ANNOTATION_AUTHOR).is_some() {
        return;
    }
    let status_is_separate = call.scope.version.status == StatusMode::Subresource;
    let kept = live.filter(|live| trusted || !desired_differs(object, live, status_is_separate));
    let author = match kept {
        Some(live) => meta::annotation(live, ANNOTATION_AUTHOR).map(str::to_owned),
        None => Some(author_of(&call.context.user)),
    };
    match author {
        Some(author) => meta::set_annotation(object, ANNOTATION_AUTHOR, &author),
        None => meta::remove_annotation(object, ANNOTATION_AUTHOR),
    }
}

/// Only the spec is intent: an instance has nothing else beside its status.
fn desired_differs(object: &Value, live: &Value, status_is_separate: bool) -> bool {
    if status_is_separate {
        return object.get("spec") != live.get("spec");
    }
    let without_status = |value: &Value| {
        value.as_object().map(|fields| {
            let counts = |name: &&String| !matches!(name.as_str(), "metadata" | "status");
            fields
                .keys()
                .filter(counts)
                .map(|name| (name.clone(), value.get(name).cloned()))
                .collect::<Vec<_>>()
        })
    };
    without_status(object) != without_status(live)
}

fn author_of(user: &UserInfo) -> String {
    let mut author = json!({"username": user.username, "groups": user.groups});
    if !user.uid.is_empty() {
        author["uid"] = json!(user.uid);
    }
    author.to_string()
}
