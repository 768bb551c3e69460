//! Delete: whether an object goes at once, or is marked and waits for its finalizers or its grace period.
//!
//! [`mod@plan`] decides from the live object alone; what is around it reads, commits, and does so again where another
//! write came first.
//! Source: apiserver/pkg/registry/rest/delete.go, apiserver/pkg/registry/generic/registry/store.go (Delete).

mod plan;

use api::query::DeleteOptions;
use api::{GroupResource, Status, meta};
use http::StatusCode;
use serde_json::Value;
use storage::Expect;

pub(crate) use plan::{Plan, plan};

use super::output::{self, Shown};
use super::received::receive;
use super::write::{self, Failure, Mode, Oversize, Put};
use super::{convert, decode, tried};
use crate::admit;
use crate::call::{Access, Call, Target};
use crate::negotiate::{self, MediaType, Offer};
use crate::refusal::Refusal;
use crate::respond::{self, RequestBody, Response};
use crate::strategy::rules::DeletedAnswer;

/// How often a deletion is planned anew because another write came first.
const ATTEMPTS_MAX: usize = 8;

/// What became of a deletion.
#[derive(Debug)]
pub(crate) enum Deleted {
    /// The object is gone; this was its last state.
    Gone(Value),
    /// The object is still there, marked.
    Waits(Shown),
}

pub(super) async fn delete(call: &Call<'_>, body: RequestBody) -> Result<Response, Refusal> {
    let form = call.form(Offer::Object)?;
    let options = options(call, body).await?;
    let target = call.target()?;
    admit::admit_delete(call, &target)?;
    tried::delete(call, &target).await?;
    warn_of_orphans(call, &options);
    match delete_admitted(call, &target, &options).await? {
        Deleted::Waits(shown) => {
            let accepted = options.orphan_dependents == Some(false);
            let code = if accepted {
                StatusCode::ACCEPTED
            } else {
                StatusCode::OK
            };
            output::object(call, form, code, &shown).await
        }
        Deleted::Gone(last) => match call.scope.strategy().deletion.answer {
            DeletedAnswer::Object => {
                output::object(call, form, StatusCode::OK, &Shown::Value(last)).await
            }
            DeletedAnswer::Status => {
                let status = Status::deleted(call.resource(), &target.name, meta::uid(&last));
                respond::value(StatusCode::OK, form, &status)
            }
        },
    }
}

/// Warns a deleter who leaves to the kind what becomes of dependents, where few expect that.
fn warn_of_orphans(call: &Call<'_>, options: &DeleteOptions) {
    let says = options.orphan_dependents.is_some() || options.propagation.is_some();
    if let (false, Some(warning)) = (says, call.scope.strategy().deletion.warning) {
        call.context.warn(warning);
    }
}

/// Reads the options from the body, or from the query where there is no body.
pub(super) async fn options(call: &Call<'_>, body: RequestBody) -> Result<DeleteOptions, Refusal> {
    let bytes = receive(call.context, body).await?;
    if bytes.is_empty() {
        return Ok(DeleteOptions::from_query(call.query)?);
    }
    let supported = [MediaType::Json, MediaType::Yaml, MediaType::Protobuf];
    let media = negotiate::content_type(&call.parts.headers, &supported)?;
    let expected = api::GroupVersionKind::new("meta.k8s.io", "v1", "DeleteOptions");
    let value = decode::parse_options(media, &bytes, &expected)?;
    call.context.note_document(&value);
    Ok(DeleteOptions::from_value(&value)?)
}

/// Deletes one object, or marks it, if admission lets the caller.
pub(super) async fn delete_admitted(
    call: &Call<'_>,
    target: &Target,
    options: &DeleteOptions,
) -> Result<Deleted, Refusal> {
    delete_judged(&call.access(), target, options, Some(call)).await
}

/// Deletes one object, or marks it. Nobody is asked: for the hub's own controllers, and what was admitted already.
pub(crate) async fn delete_object(
    access: &Access<'_>,
    target: &Target,
    options: &DeleteOptions,
) -> Result<Deleted, Refusal> {
    delete_judged(access, target, options, None).await
}

async fn delete_judged(
    access: &Access<'_>,
    target: &Target,
    options: &DeleteOptions,
    call: Option<&Call<'_>>,
) -> Result<Deleted, Refusal> {
    let resource = &access.scope.rules.resource;
    for _attempt in 0..ATTEMPTS_MAX {
        let Some(entry) = access.shared.store.get(&target.key) else {
            return Err(Status::not_found(resource, &target.name).into());
        };
        let live = convert::live(access, &entry).await?;
        check_preconditions(access, target, options, &live)?;
        if let Some(call) = call {
            admit::validate_delete(call, target, &live, options).await?;
        }
        let mode = Mode::of(options.dry_run);
        let expect = Expect::Revision(entry.modified());
        let done = match plan(access.scope, &live, options, access.now) {
            Plan::Keep => Ok(Deleted::Waits(Shown::Entry(entry))),
            Plan::Mark(object) if object == live => Ok(Deleted::Waits(Shown::Entry(entry))),
            Plan::Mark(object) if mode == Mode::DryRun => Ok(Deleted::Waits(Shown::Value(object))),
            Plan::Mark(mut object) => {
                let oversize = Oversize::DropManagedFields;
                let put = Put {
                    key: &target.key,
                    expect,
                    oversize,
                    beside: Vec::new(),
                };
                let entry = put.commit(access, &mut object).await;
                entry.map(|entry| Deleted::Waits(Shown::Entry(entry)))
            }
            Plan::Remove if mode == Mode::DryRun => Ok(Deleted::Gone(live)),
            Plan::Remove => {
                let removed = write::remove(access, target, &live, expect).await;
                removed.map(|()| Deleted::Gone(live))
            }
        };
        match done {
            Ok(deleted) => return Ok(deleted),
            Err(Failure::Raced(_) | Failure::Collided) => {}
            Err(Failure::Refused(refusal)) => return Err(refusal),
        }
    }
    Err(Status::modified(resource, &target.name).into())
}

fn check_preconditions(
    access: &Access<'_>,
    target: &Target,
    options: &DeleteOptions,
    live: &Value,
) -> Result<(), Refusal> {
    let gvk = &access.scope.kind.gvk;
    // Kubernetes names the kind where the resource belongs.
    let resource = GroupResource::new(gvk.group.as_str(), gvk.kind.as_str());
    let uid = meta::uid(live);
    if let Some(want) = options
        .preconditions
        .uid
        .as_deref()
        .filter(|want| *want != uid)
    {
        let detail = format!(
            "the UID in the precondition ({want}) does not match the UID in record ({uid}). The object might have \
             been deleted and then recreated"
        );
        return Err(Status::conflict(&resource, &target.name, &detail).into());
    }
    let version = meta::resource_version(live);
    let want = options.preconditions.resource_version.as_deref();
    if let Some(want) = want.filter(|want| *want != version) {
        let detail = format!(
            "the ResourceVersion in the precondition ({want}) does not match the ResourceVersion in record \
             ({version}). The object might have been modified"
        );
        return Err(Status::conflict(&resource, &target.name, &detail).into());
    }
    Ok(())
}
