//! Delete of a collection: object by object, as if each had been deleted by name.
//!
//! The answer is the list of what was there. An object that someone else deletes at the same time is not missed.
//! Source: apiserver/pkg/registry/generic/registry/store.go (DeleteCollection).

use api::ListMeta;
use api::query::{DeleteOptions, ListOptions};
use futures::future::try_join_all;
use serde_json::Value;
use storage::Entry;

use super::delete::{Deleted, delete_admitted, options};
use super::list::{self, read};
use super::output::Shown;
use super::selection::Selection;
use super::{convert, tried};
use crate::admit;
use crate::call::{Call, Target};
use crate::negotiate::Offer;
use crate::objects::{RevisionSlot, encode, parse_key};
use crate::refusal::Refusal;
use crate::respond::{RequestBody, Response};

/// Deletions under way at once: they share commits.
const CONCURRENT_COUNT: usize = 64;

pub(super) async fn delete_collection(
    call: &Call<'_>,
    body: RequestBody,
) -> Result<Response, Refusal> {
    let cluster = call.cluster()?;
    let form = call.form(Offer::List)?;
    let list_options = ListOptions::from_query(call.query)?;
    let selection = Selection::new(call, &list_options)?;
    let options = options(call, body).await?;
    let page = read(call, &list_options, &selection).await?;
    let revision = page.revision;
    let target_of = |entry: &Entry| {
        let parts = parse_key(entry.key())?;
        Some(Target {
            cluster: cluster.clone(),
            namespace: parts.namespace.to_owned(),
            name: parts.name.to_owned(),
            key: entry.to_key(),
        })
    };
    let targets: Vec<Target> = page.entries.iter().filter_map(target_of).collect();
    let mut items: Vec<Value> = Vec::with_capacity(targets.len());
    for some in targets.chunks(CONCURRENT_COUNT) {
        let deletions: Vec<_> = some
            .iter()
            .map(|target| delete_one(call, target, &options))
            .collect();
        items.extend(try_join_all(deletions).await?.into_iter().flatten());
    }
    let metadata = ListMeta {
        resource_version: revision.to_string(),
        ..ListMeta::default()
    };
    let encoded = items
        .iter()
        .map(|item| encode(item, RevisionSlot::Keep).bytes.into());
    list::answer(call, form, metadata, encoded.collect())
}

async fn delete_one(
    call: &Call<'_>,
    target: &Target,
    options: &DeleteOptions,
) -> Result<Option<Value>, Refusal> {
    admit::admit_delete(call, target)?;
    tried::delete(call, target).await?;
    match delete_admitted(call, target, options).await {
        Ok(Deleted::Gone(object) | Deleted::Waits(Shown::Value(object))) => Ok(Some(object)),
        Ok(Deleted::Waits(Shown::Entry(entry))) => {
            convert::live(&call.access(), &entry).await.map(Some)
        }
        Err(refusal) if refusal.status().is_some_and(api::Status::is_not_found) => Ok(None),
        Err(refusal) => Err(refusal),
    }
}
