//! Update: PUT of an object, and the read-modify-write loop that every change of an object goes through.

use api::query::UpdateOptions;
use api::{FieldError, FieldPath, GroupKind, Status, meta};
use http::StatusCode;
use serde_json::Value;
use storage::{Entry, Expect};

use super::output::{self, Shown};
use super::received::receive;
use super::spoke_born::{self, Taken};
use super::write::{self, Failure, Mode, Oversize, Put, Written};
use super::{convert, decode, fields, prepare, scaled, tried};
use crate::admit;
use crate::authorize::Attributes;
use crate::call::{Call, Target};
use crate::negotiate::{self, Offer};
use crate::refusal::Refusal;
use crate::respond::{RequestBody, Response};
use crate::strategy::endpoint::Endpoint;
use crate::strategy::rules::{PutOfAbsent, PutWithoutVersion};

/// How often a change is retried after a conflicting write. Source: patch.go retries as often.
const ATTEMPTS_MAX: usize = 5;

/// A change of one object.
pub(super) struct Change<'c> {
    /// Makes the new state out of the live one, its fields attributed; out of nothing where there is none.
    pub(super) make: &'c (dyn Fn(Option<&Value>) -> Result<Value, Refusal> + Send + Sync),
    /// What is done where there is no object.
    pub(super) absent: Absent,
    pub(super) mode: Mode,
    pub(super) oversize: Oversize,
}

/// What a change of an object that is not there does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Absent {
    /// 404.
    NotFound,
    /// It creates the object, if the user may.
    Creates,
}

/// PUT.
pub(super) async fn update(call: &Call<'_>, body: RequestBody) -> Result<Response, Refusal> {
    let form = call.form(Offer::Object)?;
    let bytes = receive(call.context, body).await?;
    let options = UpdateOptions::from_query(call.query)?;
    let media = negotiate::content_type(&call.parts.headers, call.scope.typing().object_media())?;
    let mut sent = decode::object(call, media, &bytes, options.field_validation)?;
    call.context.note_object(&sent);
    let target = call.target()?;
    target.check(&mut sent)?;
    fields::drop_repeated_owners(call, &mut sent);
    let make = |live: Option<&Value>| {
        let mut object = sent.clone();
        match live {
            Some(live) => {
                check_uid(call, &sent, live)?;
                fields::track_update(call, live, &mut object, &options.field_manager);
            }
            None => fields::track_create(call, &mut object, &options.field_manager),
        }
        Ok(object)
    };
    let creates = call.endpoint == Endpoint::Main
        && call.scope.strategy().put_of_absent == PutOfAbsent::Creates;
    let change = Change {
        make: &make,
        absent: if creates {
            Absent::Creates
        } else {
            Absent::NotFound
        },
        mode: Mode::of(options.dry_run),
        oversize: Oversize::DropManagedFields,
    };
    let written = run(call, &target, &change).await?;
    respond(call, form, &written).await
}

/// Answers with what a change made.
pub(super) async fn respond(
    call: &Call<'_>,
    form: negotiate::Negotiated,
    written: &Written,
) -> Result<Response, Refusal> {
    let code = if written.created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    output::object(call, form, code, &written.shown).await
}

/// Runs a change against the live object, again where another write came in between.
///
/// This is the read-modify-write loop: what is inside of it runs once per attempt.
pub(super) async fn run(
    call: &Call<'_>,
    target: &Target,
    change: &Change<'_>,
) -> Result<Written, Refusal> {
    for _attempt in 0..ATTEMPTS_MAX {
        let done = match call.shared.store.get(&target.key) {
            Some(entry) => change_once(call, target, change, &entry).await,
            None => create_once(call, target, change).await,
        };
        match done {
            Ok(written) => return Ok(written),
            Err(Failure::Raced(_) | Failure::Collided) => {}
            Err(Failure::Refused(refusal)) => return Err(refusal),
        }
    }
    Err(Status::modified(call.resource(), &target.name).into())
}

async fn create_once(
    call: &Call<'_>,
    target: &Target,
    change: &Change<'_>,
) -> Result<Written, Failure> {
    if change.absent == Absent::NotFound {
        return Err(call.not_found(&target.name).into());
    }
    let mut object = (change.make)(None)?;
    if !meta::uid(&object).is_empty() {
        let detail = format!(
            "uid mismatch: the provided object specified uid {}, and no existing object was found",
            meta::uid(&object)
        );
        return Err(Status::conflict(call.resource(), &target.name, &detail).into());
    }
    target.check(&mut object)?;
    let asked = Attributes::of_request(call.context, call.info).with_verb("create");
    call.shared.authorizer.require(&asked).await?;
    // As in Kubernetes, the version of an object that is not there is not looked at.
    meta::remove_field(&mut object, "resourceVersion");
    let shown = write::insert(call, object, change.mode, change.oversize).await?;
    Ok(Written {
        shown,
        created: true,
    })
}

async fn change_once(
    call: &Call<'_>,
    target: &Target,
    change: &Change<'_>,
    entry: &Entry,
) -> Result<Written, Failure> {
    let live = convert::live(&call.access(), entry).await?;
    let mut object = (change.make)(Some(&live))?;
    target.check(&mut object)?;
    let dry_run = change.mode == Mode::DryRun;
    admit::admit_update(call, target, (&mut object, &live), dry_run).await?;
    check_version(call, target, &mut object, &live)?;
    prepare::prepare_update(call, &mut object, &live);
    prepare::validate_update(call, &object, &live)?;
    let strategy = call.scope.strategy();
    let beside = match &strategy.allocation {
        Some(allocation) => {
            (allocation.allocate)(&target.holder(call.shared), &mut object, Some(&live))?
        }
        None => Vec::new(),
    };
    (strategy.canonicalize)(&mut object);
    fields::keep_times_where_nothing_changed(&mut object, &live);
    validate_admitted(call, target, (&object, &live), change.mode).await?;
    let expect = Expect::Revision(entry.modified());
    if is_finalized(call, &object, &live) {
        if change.mode == Mode::Commit {
            // Watchers are shown what was there: the change that lets it go is not written.
            write::remove(&call.access(), target, &live, expect).await?;
        }
        return Ok(Written {
            shown: Shown::Value(object),
            created: false,
        });
    }
    if object == live {
        return Ok(Written {
            shown: Shown::Entry(entry.clone()),
            created: false,
        });
    }
    let taken = spoke_born::write(call, target, &mut object, &live, change.mode).await?;
    if taken == Taken::No {
        tried::change(call, target, &object, &live).await?;
    }
    if change.mode == Mode::DryRun {
        return Ok(Written {
            shown: Shown::Value(object),
            created: false,
        });
    }
    let put = Put {
        key: &target.key,
        expect,
        oversize: change.oversize,
        beside,
    };
    let entry = match put.commit(&call.access(), &mut object).await {
        // The spoke has taken it, and it has come back from there already.
        Err(Failure::Raced(Some(newer))) if taken == Taken::Yes => newer,
        done => done?,
    };
    Ok(Written {
        shown: Shown::Entry(entry),
        created: false,
    })
}

/// Asks the policies about a change. At `scale` they see a Scale; a binding was admitted as what was sent.
async fn validate_admitted(
    call: &Call<'_>,
    target: &Target,
    (object, live): (&Value, &Value),
    mode: Mode,
) -> Result<(), Refusal> {
    let dry_run = mode == Mode::DryRun;
    match call.endpoint {
        Endpoint::Binding => Ok(()),
        Endpoint::Scale => {
            let paths = scaled::paths(call)?;
            let (scale, live) = (scaled::counted(paths, object), scaled::counted(paths, live));
            admit::validate_update(call, target, (&scale, &live), dry_run).await
        }
        _ => admit::validate_update(call, target, (object, live), dry_run).await,
    }
}

/// Whether an object that was asked to go has nothing left to wait for.
fn is_finalized(call: &Call<'_>, object: &Value, live: &Value) -> bool {
    let grace = meta::metadata(live).and_then(|it| it.get("deletionGracePeriodSeconds"));
    meta::finalizers(object).is_empty()
        && meta::is_terminating(live)
        && grace.and_then(Value::as_i64).unwrap_or(0) == 0
        && (call.scope.strategy().deletion.may_be_removed)(object)
}

/// The uid that a PUT says is a precondition. (That of a patch is a change of what cannot be changed.)
fn check_uid(call: &Call<'_>, sent: &Value, live: &Value) -> Result<(), Refusal> {
    let (uid, live_uid) = (meta::uid(sent), meta::uid(live));
    if uid.is_empty() || uid == live_uid {
        return Ok(());
    }
    let detail =
        format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {live_uid}");
    Err(Status::conflict(call.resource(), meta::name(live), &detail).into())
}

/// The resource version that the object says must be the one that it has; a missing one is the live one where the
/// resource allows that.
fn check_version(
    call: &Call<'_>,
    target: &Target,
    object: &mut Value,
    live: &Value,
) -> Result<(), Refusal> {
    let version = meta::resource_version(object);
    if version == meta::resource_version(live) {
        return Ok(());
    }
    if !version.is_empty() && version != "0" {
        return Err(Status::modified(call.resource(), &target.name).into());
    }
    if call.scope.strategy().put_without_version == PutWithoutVersion::Refused {
        let path = FieldPath::new("metadata").child("resourceVersion");
        let error = FieldError::invalid(&path, 0, "must be specified for an update");
        // Kubernetes names the resource where a kind belongs.
        let resource = call.resource();
        let kind = GroupKind::new(resource.group.as_str(), resource.resource.as_str());
        return Err(Status::invalid(&kind, &target.name, vec![error]).into());
    }
    meta::set_resource_version(object, meta::resource_version(live));
    Ok(())
}
