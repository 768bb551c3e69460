//! Whose intent an object is: the annotation `internal.wheelhouse.dev/author`.
//!
//! Children of an instance are made in their author's name, so the author must be who the server saw, not who the
//! object says. It is set at creation and whenever the desired state changes; a client that sends another one is
//! ignored in silence, as with every field of the system.
//!
//! Invariant: only a request of one of the hub's controllers ([`crate::request::RequestOrigin`]) may say the author itself, and only
//! the syncer does, as itself: what it writes in somebody's name is that user's.
//!
//! Invariant: whoever changes anything that steers what is done in the author's name becomes the author, so that nobody's
//! wish is carried out with another's rights.

use api::meta;
use api::wheelhouse::author::{Author, User};
use api::wheelhouse::keys::ANNOTATION_AUTHOR;
use api::wheelhouse::origin;
use serde_json::{Map, Value};

use crate::call::Call;
use crate::request::{RequestContext, SYSTEM_MASTERS, UserInfo};
use crate::strategy::rules::AuthorStamp;
use crate::strategy::version::StatusMode;

/// Sets the author of a new object, or of a changed one.
pub(super) fn stamp(call: &Call<'_>, object: &mut Value, live: Option<&Value>) {
    if call.scope.strategy().author == AuthorStamp::Absent {
        return;
    }
    let trusted = is_syncer(call.context);
    let said = meta::annotation(object, ANNOTATION_AUTHOR);
    let known = live.and_then(|live| meta::annotation(live, ANNOTATION_AUTHOR));
    if trusted && said.is_some() && said != known {
        return;
    }
    let status_is_separate = call.scope.version.status == StatusMode::Subresource;
    let differs = |live: &Value| {
        // The syncer's own labels on what users wrote are its bookkeeping.
        spec_differs(object, live, status_is_separate)
            || (!trusted && steering_differs(object, live))
    };
    let kept = live.filter(|live| !differs(live));
    let author = match kept {
        Some(live) => meta::annotation(live, ANNOTATION_AUTHOR).map(str::to_owned),
        // The spoke does not say whose wish it is.
        None if trusted && origin::is_of_spoke(object) => None,
        None => Some(author_of(call.context).to_text()),
    };
    match author {
        Some(author) => meta::set_annotation(object, ANNOTATION_AUTHOR, &author),
        None => meta::remove_annotation(object, ANNOTATION_AUTHOR),
    }
}

/// Whether a request is the syncer's own, and not made in somebody's name.
pub(super) fn is_syncer(context: &RequestContext) -> bool {
    context.origin.is_controller()
        && context.impersonator.is_none()
        && Author::is_hub(&context.user.username)
}

/// Keys of labels and annotations that say how a definition is carried out: where, as whom, over whose objects.
const STEERING_PREFIXES: &[&str] = &["wheelhouse.dev/", "kro.run/"];

fn steering_differs(object: &Value, live: &Value) -> bool {
    ["annotations", "labels"]
        .into_iter()
        .any(|part| steering(object, part) != steering(live, part))
}

/// Only the spec is intent: an instance has nothing else beside its status.
fn spec_differs(object: &Value, live: &Value, status_is_separate: bool) -> bool {
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

fn steering<'v>(object: &'v Value, part: &str) -> Vec<(&'v str, &'v Value)> {
    let map = meta::metadata(object).and_then(|metadata| metadata.get(part)?.as_object());
    let entries = map.into_iter().flat_map(Map::iter);
    entries
        .filter(|(key, _)| STEERING_PREFIXES.iter().any(|it| key.starts_with(it)))
        .map(|(key, value)| (key.as_str(), value))
        .collect()
}

/// Returns the user who sends a request, as other clusters are told of them; `None` for the hub itself.
pub(crate) fn sender(context: &RequestContext) -> Option<User> {
    match author_of(context) {
        Author::User(user) => Some(user),
        Author::Hub => None,
    }
}

/// Who writes. What one may call oneself within a cluster by impersonation is not what one is beyond it: of the groups of an
/// impersonated user, `system:masters` is that of the sender.
fn author_of(context: &RequestContext) -> Author {
    if is_syncer(context) {
        return Author::Hub;
    }
    let UserInfo {
        username,
        uid,
        groups,
        extra,
        ..
    } = context.user.as_ref();
    let sender = context.impersonator.as_ref().unwrap_or(&context.user);
    // Masters of the host are not taken for the hub's own where those are trusted, which is in spokes.
    let is_master = sender.is_master_of_hub() && sender.at_host().is_none();
    let mut groups = groups.clone();
    groups.retain(|group| is_master || group != SYSTEM_MASTERS);
    // Facts about the credential, which change with every token, and give no rights.
    let mut extra = extra.clone();
    extra.retain(|key, _| !key.starts_with("authentication.kubernetes.io/"));
    Author::User(User {
        username: username.clone(),
        uid: uid.clone(),
        groups,
        extra,
        known_only_in: context
            .user
            .known_only_in()
            .map(ToString::to_string)
            .unwrap_or_default(),
    })
}
