//! A list over all clusters of a kind that spokes keep themselves: what the hub stores of it, then what each spoke has sent.
//!
//! It is answered whole, and as of now: spokes have no revision in common, so there is none to page or to go on at.
//!
//! # Invariants
//! - A spoke that is not in the list is told: the answer is 503, or, where the client takes a part (`partial=true`), each such spoke is
//!   named in a warning.
//! - What one spoke sends cannot make the parts of others fail.

use api::query::{ListOptions, ResourceVersionMatch, parse_resource_version};
use api::{ListMeta, Status};
use bytes::Bytes;

use super::{EXPIRED, EXPIRED_PAGE, dress, items, read, render};
use crate::call::{Call, Each, Failed, Gathered};
use crate::handle::missing;
use crate::handle::output::include_object;
use crate::handle::selection::Selection;
use crate::negotiate::{Negotiated, Shape};
use crate::refusal::Refusal;
use crate::respond::Response;
use crate::served::KindSource;

/// Objects that are made ready for the answer in one go, which takes some milliseconds.
const DRESSED_AT_ONCE: usize = 64;

pub(super) async fn list(
    call: &Call<'_>,
    form: Negotiated,
    mut options: ListOptions,
    gathered: &Gathered,
) -> Result<Response, Refusal> {
    if let Shape::Table(_) = form.shape {
        include_object(call.query)?;
    }
    if !options.continue_token.is_empty() {
        // Of a list that began before there were spokes to ask.
        return Err(Status::expired(EXPIRED_PAGE).into());
    }
    let asked = parse_resource_version(&options.resource_version)?;
    if asked.is_some() && options.resource_version_match == Some(ResourceVersionMatch::Exact) {
        return Err(Status::expired(EXPIRED).into());
    }
    options.limit = 0;
    let (mut all, metadata) = stored(call, form, &options).await?;
    let mut failed = gathered.failed.clone();
    for list in &gathered.lists {
        let is_other = call.scope.kind.source == KindSource::BuiltIn
            && call.scope.kind.list_kind != list.list_kind;
        let dressed = if is_other {
            Err(format!("it answered with a {}", list.list_kind))
        } else {
            dress_slowly(call, form, &list.items).await
        };
        match dressed {
            Ok(mut items) => all.append(&mut items),
            Err(reason) => failed.push(Failed {
                cluster: list.cluster.clone(),
                reason,
            }),
        }
    }
    missing::tell(call, &failed)?;
    render(call, form, metadata, all)
}

/// Dresses the objects of one spoke, some at a time: others get the thread in between.
///
/// # Errors
/// Why they cannot be shown, for the client.
async fn dress_slowly(
    call: &Call<'_>,
    form: Negotiated,
    items: &[Bytes],
) -> Result<Vec<Bytes>, String> {
    let mut all = Vec::with_capacity(items.len());
    for some in items.chunks(DRESSED_AT_ONCE) {
        let dressed = dress(call, form, some.to_vec());
        all.append(&mut dressed.map_err(|_refusal| "an object of it is malformed".to_owned())?);
        tokio::task::yield_now().await;
    }
    Ok(all)
}

/// What the hub stores of it, and the metadata of the list.
async fn stored(
    call: &Call<'_>,
    form: Negotiated,
    options: &ListOptions,
) -> Result<(Vec<Bytes>, ListMeta), Refusal> {
    let serves = |each: &Each| !each.serving().is_empty();
    let (items, revision) = if call.each.is_some_and(serves) {
        let selection = Selection::new(call, options)?;
        let page = read(call, options, &selection).await?;
        let items = dress(call, form, items(call, &page, &selection)?)?;
        (items, page.revision)
    } else {
        (Vec::new(), call.shared.store.revision())
    };
    let metadata = ListMeta {
        resource_version: revision.to_string(),
        ..ListMeta::default()
    };
    Ok((items, metadata))
}
