//! The small subresources of pods: `binding` and `eviction`; and those that need a pod that runs.
//!
//! The latter are refused as by a cluster whose pods do not run: nothing does where the hub stores the pods. Disruption budgets are not asked about evictions: there is nobody who keeps their status.
//! Source: kubernetes/pkg/registry/core/pod/storage/{storage,eviction}.go.

use api::query::{CreateOptions, DeleteOptions};
use api::{Condition, GroupVersionKind, Status, meta};
use http::StatusCode;
use serde_json::{Value, json};

use super::convert;
use super::decode;
use super::delete::delete_object;
use super::received::receive;
use super::update::{self, Absent, Change};
use super::write::{Mode, Oversize};
use crate::admit;
use crate::call::Call;
use crate::negotiate::{self, MediaType, Negotiated, Offer};
use crate::refusal::Refusal;
use crate::respond::{self, RequestBody, Response};
use crate::strategy::endpoint::Endpoint;
use crate::strategy::pods;

const MEDIA: [MediaType; 3] = [MediaType::Json, MediaType::Yaml, MediaType::Protobuf];

/// Gives a pod its node.
pub(super) async fn bind(call: &Call<'_>, body: RequestBody) -> Result<Response, Refusal> {
    let form = negotiate::accept(call.parts, Offer::Message)?;
    let binding = read(call, body, &GroupVersionKind::new("", "v1", "Binding")).await?;
    let options = CreateOptions::from_query(call.query)?;
    let target = call.target()?;
    let named = meta::name(&binding);
    if named != target.name {
        return Err(
            Status::bad_request("name in URL does not match name in Binding object").into(),
        );
    }
    pods::node_of(&binding)?;
    let make = |live: Option<&Value>| {
        let live = live.ok_or_else(|| call.not_found(&target.name))?;
        Ok(pods::bind(live, &binding)?)
    };
    let mode = Mode::of(options.dry_run);
    admit::validate_create(call, &target, &binding, options.dry_run).await?;
    let oversize = Oversize::DropManagedFields;
    let change = Change {
        make: &make,
        absent: Absent::NotFound,
        mode,
        oversize,
    };
    update::run(call, &target, &change).await?;
    if mode == Mode::Commit {
        let now = meta::time_now_text(call.context.now);
        let scheduled = || Condition::new("PodScheduled", meta::STATUS_TRUE, "", "");
        let access = call.access();
        let _told = super::controllers::change(&access, &target, |object| {
            meta::set_conditions(object, [scheduled()], &now);
        })
        .await;
    }
    created(form)
}

/// Refuses what only a pod that runs can answer, as Kubernetes does for one that has no node or a service without endpoints.
///
/// Source: `streamLocation` in kubernetes/pkg/registry/core/pod/strategy.go, `ResourceLocation` in
/// kubernetes/pkg/registry/core/service/storage/storage.go.
pub(super) fn running(call: &Call<'_>) -> Result<Response, Refusal> {
    let named = &call.info.name;
    // Proxies name a port too: `https:web:443`.
    let name = match named.split(':').collect::<Vec<_>>().as_slice() {
        [name] | [name, _] | [_, name, _] if call.info.subresource == "proxy" => *name,
        _ => named,
    };
    let target = call.target_named(name)?;
    let entry = call.shared.store.get(&target.key);
    let entry = entry.ok_or_else(|| call.not_found(name))?;
    if call.endpoint == Endpoint::Balanced {
        let text = format!("no endpoints available for service {named:?}");
        return Err(Status::service_unavailable(text).into());
    }
    let pod = convert::served_value(call.scope, &entry)?;
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    let text = if node.is_empty() {
        format!("pod {name} does not have a host assigned")
    } else {
        format!("pod {name} does not run: node {node:?} of this cluster has no kubelet")
    };
    Err(Status::bad_request(text).into())
}

/// Deletes a pod.
pub(super) async fn evict(call: &Call<'_>, body: RequestBody) -> Result<Response, Refusal> {
    let form = negotiate::accept(call.parts, Offer::Message)?;
    let eviction = read(
        call,
        body,
        &GroupVersionKind::new("policy", "v1", "Eviction"),
    )
    .await?;
    let created_as = CreateOptions::from_query(call.query)?;
    let target = call.target()?;
    let mut options = match eviction.get("deleteOptions") {
        Some(options) if options.is_object() => DeleteOptions::from_value(options)?,
        _ => DeleteOptions::default(),
    };
    options.dry_run |= created_as.dry_run;
    admit::admit_delete(call, &target)?;
    admit::validate_create(call, &target, &eviction, options.dry_run).await?;
    delete_object(&call.access(), &target, &options).await?;
    created(form)
}

async fn read(
    call: &Call<'_>,
    body: RequestBody,
    kind: &GroupVersionKind,
) -> Result<Value, Refusal> {
    let media = negotiate::content_type(&call.parts.headers, &MEDIA)?;
    let bytes = receive(call.context, body).await?;
    let object = decode(media, &bytes, kind)?;
    call.context.note_object(&object);
    Ok(object)
}

fn created(form: Negotiated) -> Result<Response, Refusal> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
    });
    respond::value(StatusCode::CREATED, form, &status)
}
