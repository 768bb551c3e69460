//! List: stored bytes, one after the other.
//!
//! An answer holds the entries of one revision and copies their bytes while it is sent, chunk by chunk. Pages go on at
//! the revision of the first one as long as it is kept.
//! Source: apiserver/pkg/storage/etcd3/store.go (GetList), apiserver/pkg/storage/continue.go; api-compat 1.6.

mod frame;
mod gathered;

use api::query::{ListOptions, ResourceVersionMatch, parse_resource_version};
use api::table::{META_API_VERSION, PARTIAL_OBJECT_METADATA, PARTIAL_OBJECT_METADATA_LIST};
use api::{ClusterScope, ListMeta, Status};
use bytes::Bytes;
use storage::{Entry, KeyRange, RangeQuery, Revision};

use super::convert;
use super::get::check_not_newer;
use super::output::{corrupt, include_object, table_of};
use super::selection::Selection;
use crate::call::Call;
use crate::negotiate::{Encoding, Negotiated, Offer, Shape};
use crate::objects::{ContinueToken, parse_key, splice_cluster, write_partial_metadata};
use crate::protobuf;
use crate::refusal::Refusal;
use crate::registry::ResourceScope;
use crate::respond;
use crate::respond::Response;
use crate::strategy::typing::ListForm;
use crate::table;

use frame::Framed;

/// How many entries are looked at in one go where a selector leaves it open how many are needed.
const SCAN_COUNT: usize = 2048;

const EXPIRED: &str = "The resourceVersion for the provided list is too old.";
const EXPIRED_PAGE: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

/// One page.
pub(super) struct Page {
    pub(super) entries: Vec<Entry>,
    pub(super) revision: Revision,
    /// The key after which the next page begins.
    next: Option<Vec<u8>>,
    /// Unknown where the store did not count so far.
    remaining: Option<u64>,
}

pub(super) async fn list(call: &Call<'_>) -> Result<Response, Refusal> {
    let form = call.form(Offer::List)?;
    let options = ListOptions::from_query(call.query)?;
    if let Some(gathered) = call.gathered {
        return gathered::list(call, form, options, gathered).await;
    }
    let selection = Selection::new(call, &options)?;
    let mut page = read(call, &options, &selection).await?;
    // Over all clusters, the face of the answer names no webhook, and none is called.
    page.entries =
        convert::ready(call.shared, call.scope, page.entries, call.context.deadline).await?;
    let metadata = metadata(&selection, &page);
    answer(call, form, metadata, items(call, &page, &selection)?)
}

/// Answers with a list of objects, in the form that the client asks for.
pub(super) fn answer(
    call: &Call<'_>,
    form: Negotiated,
    metadata: ListMeta,
    items: Vec<Bytes>,
) -> Result<Response, Refusal> {
    let items = dress(call, form, items)?;
    render(call, form, metadata, items)
}

/// Reads a page.
pub(super) async fn read(
    call: &Call<'_>,
    options: &ListOptions,
    selection: &Selection,
) -> Result<Page, Refusal> {
    let mut limit = usize::try_from(options.limit)
        .ok()
        .filter(|limit| *limit > 0);
    if options.resource_version == "0" && options.continue_token.is_empty() {
        // "Any state will do" is answered whole, as Kubernetes does from its cache.
        limit = None;
    }
    let mut range = selection.range.clone();
    let at = if options.continue_token.is_empty() {
        revision_of(call, options)?
    } else {
        let token = ContinueToken::decode(&options.continue_token)
            .map_err(|error| Status::bad_request(format!("invalid continue token: {error}")))?;
        range.start = [&*selection.range.start, token.start.as_bytes()]
            .concat()
            .into();
        token.revision.map(Revision)
    };
    let page = scan(call, selection, range, at, limit).await;
    page.map_err(|failure| match failure {
        ScanFailure::Refused(refusal) => refusal,
        ScanFailure::Store(storage::Error::Compacted { .. })
            if !options.continue_token.is_empty() =>
        {
            expired_page(options)
        }
        ScanFailure::Store(storage::Error::Compacted { .. }) => Status::expired(EXPIRED).into(),
        ScanFailure::Store(storage::Error::FutureRevision { requested, current }) => {
            Status::resource_version_too_large(requested.0, current.0).into()
        }
        ScanFailure::Store(error) => error.into(),
    })
}

/// The revision that a list is read at; `None` for the newest. Versions that are no hub's are not honoured: they come
/// from a spoke, before its kind was served here.
fn revision_of(call: &Call<'_>, options: &ListOptions) -> Result<Option<Revision>, Refusal> {
    let Some(version) = parse_resource_version(&options.resource_version)? else {
        return Ok(None);
    };
    let exact = match options.resource_version_match {
        Some(ResourceVersionMatch::Exact) => true,
        Some(ResourceVersionMatch::NotOlderThan) => false,
        None => options.limit > 0,
    };
    let revision = Revision(version);
    if !revision.is_of_a_hub() {
        let insists = options.resource_version_match == Some(ResourceVersionMatch::Exact);
        return if insists {
            Err(Status::expired(EXPIRED).into())
        } else {
            Ok(None)
        };
    }
    check_not_newer(call, Some(version))?;
    Ok(exact.then_some(revision))
}

enum ScanFailure {
    Store(storage::Error),
    Refused(Refusal),
}

async fn scan(
    call: &Call<'_>,
    selection: &Selection,
    range: KeyRange,
    at: Option<Revision>,
    limit: Option<usize>,
) -> Result<Page, ScanFailure> {
    let whole = selection.is_whole();
    let mut lenses = selection.lenses(call.scope);
    let mut parts = selection
        .parts_of(call.scope, &range)
        .into_iter()
        .peekable();
    // Without a part there is nothing to show; the revision is asked for all the same.
    let mut rest = parts.next().unwrap_or_else(|| KeyRange {
        end: Some(range.start.clone()),
        start: range.start,
    });
    let mut at = at;
    let mut entries = Vec::new();
    loop {
        let left = limit.map(|limit| limit.saturating_sub(entries.len()));
        let count = if whole {
            left
        } else {
            left.map(|left| left.max(SCAN_COUNT))
        };
        let query = RangeQuery {
            range: rest.clone(),
            limit: count,
            at,
            holding: selection.holding.clone(),
        };
        let found = call.shared.store.range(query).map_err(ScanFailure::Store)?;
        at = Some(found.revision);
        let last = found.entries.last().map(Entry::to_key);
        let (more, found_count) = (found.more(), found.entries.len());
        let entries_found = selection.readable(call, found.entries).await;
        let entries_found = entries_found.map_err(ScanFailure::Refused)?;
        for (index, entry) in entries_found.into_iter().enumerate() {
            let Some(lens) = lenses.of(&entry) else {
                continue;
            };
            let matches = lenses.or_left_out(selection.matches(&lens, &entry));
            if matches.map_err(ScanFailure::Refused)? != Some(true) {
                continue;
            }
            let full = limit.is_some_and(|limit| entries.len() + 1 >= limit);
            let behind = more || index + 1 < found_count || parts.peek().is_some();
            let next = (full && behind).then(|| entry.key().to_vec());
            entries.push(entry);
            if next.is_some() {
                let (revision, remaining) = (found.revision, found.remaining);
                return Ok(Page {
                    entries,
                    revision,
                    next,
                    remaining,
                });
            }
        }
        let behind = last
            .filter(|_| more)
            .map(|last| rest.clone().behind(&last))
            .or_else(|| parts.next());
        let Some(behind) = behind else {
            return Ok(Page {
                entries,
                revision: found.revision,
                next: None,
                remaining: None,
            });
        };
        rest = behind;
    }
}

/// 410 with a token with which the client can go on at the newest state, if it can live with that.
fn expired_page(options: &ListOptions) -> Refusal {
    let mut status = Status::expired(EXPIRED_PAGE);
    if let Ok(token) = ContinueToken::decode(&options.continue_token) {
        let token = ContinueToken {
            revision: None,
            start: token.start,
        };
        status.metadata.continue_token = token.encode();
    }
    status.into()
}

fn metadata(selection: &Selection, page: &Page) -> ListMeta {
    let mut metadata = ListMeta {
        resource_version: page.revision.to_string(),
        ..ListMeta::default()
    };
    let relative = |key: &[u8]| {
        let key = key.strip_prefix(&*selection.range.start).unwrap_or(key);
        String::from_utf8_lossy(key).into_owned()
    };
    if let Some(next) = &page.next {
        let token = ContinueToken::after(Some(page.revision.0), &relative(next));
        metadata.continue_token = token.encode();
        if !selection.is_by_client() && !selection.hides() {
            metadata.remaining_item_count =
                page.remaining.and_then(|count| i64::try_from(count).ok());
        }
    }
    metadata
}

/// The objects of a page, as they are served.
fn items(call: &Call<'_>, page: &Page, selection: &Selection) -> Result<Vec<Bytes>, Refusal> {
    let mut items = Vec::with_capacity(page.entries.len());
    let mut lenses = selection.lenses(call.scope);
    for entry in &page.entries {
        let Some(lens) = lenses.of(entry) else {
            continue;
        };
        items.extend(lenses.or_left_out(item(call, &lens, entry))?);
    }
    Ok(items)
}

/// Makes of objects what the form of the answer has in their place.
fn dress(call: &Call<'_>, form: Negotiated, mut items: Vec<Bytes>) -> Result<Vec<Bytes>, Refusal> {
    let is_message = form.encoding == Encoding::Protobuf;
    match form.shape {
        Shape::Object if is_message => {
            let kind = (
                call.scope.version.api_version.as_str(),
                &*call.scope.kind.gvk.kind,
            );
            messages(kind, &items)
        }
        Shape::Object => Ok(items),
        // As bytes: the rows of a long list would take many times as much as values.
        Shape::Table(_) => {
            let include = include_object(call.query)?;
            for item in &mut items {
                let object = serde_json::from_slice(item).map_err(Refusal::internal)?;
                let row = table::row(call.scope, &object, include, call.context.now);
                *item = serde_json::to_vec(&row).map_err(Refusal::internal)?.into();
            }
            Ok(items)
        }
        Shape::Metadata | Shape::MetadataList => {
            for item in &mut items {
                let mut out = Vec::new();
                write_partial_metadata(&mut out, item).ok_or_else(corrupt)?;
                *item = Bytes::from(out);
            }
            if is_message {
                let kind = (META_API_VERSION, PARTIAL_OBJECT_METADATA);
                return messages(kind, &items);
            }
            Ok(items)
        }
    }
}

/// Answers with what [`dress`] has made.
fn render(
    call: &Call<'_>,
    form: Negotiated,
    metadata: ListMeta,
    items: Vec<Bytes>,
) -> Result<Response, Refusal> {
    let (version, kind) = match form.shape {
        Shape::Object => {
            let (version, kind) = (&call.scope.version.api_version, &call.scope.kind);
            (version.as_str(), kind.list_kind.as_str())
        }
        Shape::Metadata | Shape::MetadataList => (META_API_VERSION, PARTIAL_OBJECT_METADATA_LIST),
        Shape::Table(version) => {
            let mut table = table_of(call, version)?.table;
            table.metadata = metadata;
            let framed = Framed::table(&table, items);
            let length = framed.length();
            return Ok(respond::json_chunks(form, framed, Some(length)));
        }
    };
    if form.encoding == Encoding::Protobuf {
        return respond::message_list((version, kind), &metadata, items);
    }
    let of = (kind, version);
    let framed = match (form.shape, call.scope.typing().list_form()) {
        // Over all clusters the items come from everywhere, each with its type.
        _ if call.each.is_some() => Framed::new(of, &metadata, items),
        (Shape::Object, ListForm::Typed) => {
            Framed::typed(of, &metadata, items, &call.scope.version.lead)
        }
        (Shape::Object, ListForm::Untyped) => Framed::untyped(of, &metadata, items),
        _ => Framed::new(of, &metadata, items),
    };
    let length = framed.length();
    Ok(respond::json_chunks(form, framed, Some(length)))
}

/// The items of a list as messages.
fn messages(kind: (&str, &str), items: &[Bytes]) -> Result<Vec<Bytes>, Refusal> {
    let (api_version, kind) = kind;
    let messages = items.iter().map(|item| {
        let object = serde_json::from_slice(item).map_err(Refusal::internal)?;
        let message = protobuf::encode_item(api_version, kind, &object);
        message.map(Bytes::from).map_err(Refusal::internal)
    });
    messages.collect()
}

/// An object as it is listed: over all clusters it says which one it is in.
fn item(call: &Call<'_>, scope: &ResourceScope, entry: &Entry) -> Result<Bytes, Refusal> {
    let bytes = convert::served_bytes(scope, entry)?;
    if let ClusterScope::One(_) = call.info.cluster {
        return Ok(bytes);
    }
    with_cluster(&bytes, entry.key())
}

/// The bytes of an object with the annotation of the cluster that its key names.
pub(super) fn with_cluster(bytes: &[u8], key: &[u8]) -> Result<Bytes, Refusal> {
    let parts = parse_key(key).ok_or_else(corrupt)?;
    let mut out = Vec::new();
    splice_cluster(&mut out, bytes, parts.cluster).ok_or_else(corrupt)?;
    Ok(out.into())
}
